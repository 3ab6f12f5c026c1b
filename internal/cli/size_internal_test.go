// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/client"
)

func TestSizesAreReadAsLinstorReadsThem(t *testing.T) {
	for text, want := range map[string]client.SizeKiB{
		"1": 1 << 20, "1G": 1 << 20, "1GiB": 1 << 20, "1gib": 1 << 20, "1 GiB": 1 << 20, " 1G ": 1 << 20,
		"1K": 1, "1k": 1, "1KiB": 1, "1kB": 1, "1KB": 1, "1024kB": 1000, "10MB": 9766, "100MB": 97657, "1M": 1024, "1MB": 977, "1GB": 976563,
		"1T": 1 << 30, "1TB": 976562500, "1P": 1 << 40, "1PiB": 1 << 40, "1PB": 976562500000,
		"1B": 1, "1024B": 1, "1025B": 2, "1s": 1, "2S": 1, "3S": 2, "8191P": 8191 << 40, "9223372036854775807B": 1 << 53,
		"0001": 1 << 20,
	} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%q is read as %d, error %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", " ", "G", "-1G", "+1G", "1.5G", "1,5G", "1e3", "0", "0G", "0B", "1X", "1GG", "1iB", "1G5", "10 0G", "0x10", "1_000", "１G", "∞",
		"8192P", "9223372036854775808B", "18446744073709551616", "99999999999999999999999999999999P", "1G\x00", "1\tG",
	} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
}

func TestSizesAreShownInTheLargestUnitThatTheyFill(t *testing.T) {
	for size, want := range map[client.SizeKiB]string{
		0: "0 KiB", 1: "1 KiB", 1023: "1023 KiB", 1024: "1 MiB", 1536: "1.50 MiB", 1 << 20: "1 GiB", 1 << 30: "1 TiB", 1 << 40: "1 PiB",
		1 << 50: "1024 PiB", 10<<20 + 1: "10.00 GiB", -5: "-5 KiB",
	} {
		if got := formatSize(size); got != want {
			t.Errorf("%d KiB is shown as %q, want %q", size, got, want)
		}
	}
	if got := knownSize(nil) + knownSize(new(client.Unlimited)); got != "" {
		t.Errorf("unknown and unlimited are shown as %q", got)
	}
}

func FuzzParseSize(f *testing.F) {
	for _, text := range []string{"1", "10MB", "1.5G", "18446744073709551616", "8192P", " 7 s", "0", "1kB", "-1", "1\u00a0G"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		size, err := parseSize(text)
		if err != nil {
			return
		}
		if size <= 0 || size > math.MaxInt64/1024+1 {
			t.Fatalf("%q is read as %d KiB", text, size)
		}
		// The same with numbers that cannot overflow.
		trimmed := strings.TrimSpace(text)
		unit := strings.TrimLeft(trimmed, "0123456789")
		number, ok := new(big.Int).SetString(strings.TrimSuffix(trimmed, unit), 10)
		factor, known := unitBytes(strings.TrimLeft(unit, " "))
		if !ok || !known {
			t.Fatalf("%q is read as %d KiB", text, size)
		}
		bytes := number.Mul(number, new(big.Int).SetUint64(factor))
		want := bytes.Add(bytes, big.NewInt(1023)).Rsh(bytes, 10)
		if want.Cmp(big.NewInt(int64(size))) != 0 {
			t.Fatalf("%q is read as %d KiB, want %s", text, size, want)
		}
	})
}
