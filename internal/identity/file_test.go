// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/internal/identity/keeper"
)

// naming is a certificate that names what text says, unsigned.
func naming(text string) *x509.Certificate {
	u, err := url.Parse(text)
	if err != nil {
		return &x509.Certificate{}
	}
	return &x509.Certificate{URIs: []*url.URL{u}}
}

// certificateNaming is a real one.
func certificateNaming(t *testing.T, c *controller, text string) *x509.Certificate {
	t.Helper()
	der := forged(t, naming(text), nil).Certificate[0]
	got, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestACredentialThatCannotBeUsedIsSaidWithWhatToDo(t *testing.T) {
	c := newController(t)
	first, second := joinedHost(t, c, "n1"), joinedHost(t, c, "n2")
	good, other := mustRead(t, first.path()), mustRead(t, second.path())
	key, _ := pem.Decode(other)
	_, rest := pem.Decode(good)
	leaf, chain := pem.Decode(rest)
	ca, _ := pem.Decode(chain)
	for name, tt := range map[string]struct {
		text []byte
		want string
	}{
		"empty":               {nil, "no private key"},
		"not PEM":             {[]byte("hello\n"), "no private key"},
		"cut off":             {good[:len(good)/2], "certificates"},
		"another key":         {append(pem.EncodeToMemory(key), rest...), "not that of the certificate"},
		"without authorities": {bytes.Replace(good, pem.EncodeToMemory(ca), nil, 1), "1 certificates"},
		"another authority":   {bytes.Replace(good, pem.EncodeToMemory(ca), pem.EncodeToMemory(leaf), 1), "none of the authorities"},
		"spoiled":             {bytes.Replace(good, []byte("MI"), []byte("XX"), 1), "cannot be used"},
		"of another node":     {other, "start the agent with --node n2"},
	} {
		t.Run(name, func(t *testing.T) {
			mustWrite(t, first.path(), tt.text)
			if err := first.report("n1"); err == nil || !containsAll(err.Error(), tt.want, first.path(), "holdfast node join-token n1", "--join TOKEN") {
				t.Errorf("got %v, want one with %q and what to do", err, tt.want)
			}
		})
	}
	// A new token helps in each case, and the right file as well.
	first.conf.Token = c.token("n1").Text()
	first.restart()
	first.join()
	if err := first.report("n1"); err != nil {
		t.Error(err)
	}
	mustWrite(t, first.path(), good)
	says(t, first.report("n1"), codes.PermissionDenied, "another host has joined") // the file of the earlier join
}

func TestADamagedFileIsNeverTakenForAnotherCredential(t *testing.T) {
	c := newController(t)
	h := joinedHost(t, c, "n1")
	good, want := mustRead(t, h.path()), h.serial()
	for n := 0; n < len(good); n += 7 {
		mustWrite(t, h.path(), good[:n])
		if got, err := h.Credential(); err == nil && got.Certificate.SerialNumber.String() != want {
			t.Fatalf("the first %d bytes are another credential", n)
		}
	}
}

func FuzzCredential(f *testing.F) {
	f.Add([]byte(""))
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n"))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		mustWrite(t, filepath.Join(dir, keeper.Name), text)
		if c, err := keeper.New(keeper.Config{Node: "n1", Dir: dir}).Credential(); err == nil && c.Node.Name.Key() != "n1" {
			t.Errorf("read as the credential of %s", c.Node.Name)
		}
	})
}

// TestReplacedFilesAreTakenUpByTheNextConnection replaces key, certificate and authority under
// an agent whose controller was replaced as well, by one with another authority.
func TestReplacedFilesAreTakenUpByTheNextConnection(t *testing.T) {
	old, fresh := newController(t), newController(t)
	h := joinedHost(t, old, "n1")
	conn, err := h.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, conn)
	if err := report(t.Context(), conn, "n1"); err != nil {
		t.Fatal(err)
	}
	next := mustRead(t, joinedHost(t, fresh, "n1").path())

	old.stop()
	old.authority = fresh.authority
	old.start(fresh.authority.ServerOptions()...)
	until(t, h.log, func() bool {
		err := report(t.Context(), conn, "n1")
		return err != nil && containsAll(err.Error(), "not a controller of this cluster", "holdfast node join-token")
	})

	replace(t, h.path(), next)
	conn.ResetConnectBackoff()
	h.run(func() bool { return report(t.Context(), conn, "n1") == nil })
}

func replace(t *testing.T, path string, text []byte) {
	t.Helper()
	mustWrite(t, path+".new", text)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// TestAHostJoinsAnewByATokenOfAnotherCluster is what an operator does whose controller's
// database was lost.
func TestAHostJoinsAnewByATokenOfAnotherCluster(t *testing.T) {
	old, fresh := newController(t), newController(t)
	h := joinedHost(t, old, "n1")
	h.conf.TokenFile = filepath.Join(h.dir, "token")
	fresh.register("n1")
	old.stop()
	old.authority = fresh.authority
	old.start(fresh.authority.ServerOptions()...)
	mustWrite(t, h.conf.TokenFile, []byte(fresh.token("n1").Text()))
	h.restart()
	h.run(func() bool { return h.report("n1") == nil })
}

func TestWhatACrashHasLeftIsTidied(t *testing.T) {
	c := newController(t)
	h := joinedHost(t, c, "n1")
	good := mustRead(t, h.path())
	mustWrite(t, filepath.Join(h.dir, ".identity-123"), good[:100])
	mustWrite(t, filepath.Join(h.dir, "joining.pem"), good) // it has the token's hash, too
	mustWrite(t, filepath.Join(h.dir, "assigned"), []byte("not ours"))
	h.restart()
	left := func() int {
		entries, err := os.ReadDir(h.dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	h.run(func() bool { return left() == 2 })
	if err := h.report("n1"); err != nil {
		t.Error(err)
	}
}
