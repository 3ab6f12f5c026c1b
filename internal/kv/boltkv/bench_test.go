// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package boltkv_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/boltkv"
)

// BenchmarkAppend appends batches of rows of 500 bytes to a file that grows to some 200,000 rows. Each append is durable.
func BenchmarkAppend(b *testing.B) {
	for _, rows := range []int{1, 100} {
		b.Run(fmt.Sprint(rows), func(b *testing.B) {
			e := boltkv.New(b.TempDir() + "/db")
			t, err := e.Own(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = e.Close() }()
			n := 0
			for b.Loop() {
				var ba kv.Batch
				for range rows {
					ba.Put = append(ba.Put, kv.Entry{Key: fmt.Sprintf("resource/%08d", (n*7919)%200000), Value: make([]byte, 500)})
					n++
				}
				if _, err := e.Append(b.Context(), t, ba); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
