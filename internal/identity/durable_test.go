// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"crypto/x509"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/holdfast-storage/holdfast/internal/identity"
	"github.com/holdfast-storage/holdfast/internal/identity/authority"
	"github.com/holdfast-storage/holdfast/internal/kv/boltkv"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

func openDurable(t *testing.T, path string) (*store.Store, *authority.Authority, error) {
	t.Helper()
	st, err := store.Open(t.Context(), boltkv.New(path), schema.Collections())
	if err != nil {
		t.Fatal(err)
	}
	a, err := authority.Open(t.Context(), authority.Config{Store: st})
	return st, a, err
}

func TestTheAuthorityIsMadeOnceAndReadableByItsOwnerAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "holdfast.db")
	st, a, err := openDurable(t, path)
	if err != nil {
		t.Fatal(err)
	}
	want := a.Fingerprint()
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("the database has the mode %v, %v", info.Mode(), err)
	}
	st, a, err = openDurable(t, path)
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, st)
	if a.Fingerprint() != want {
		t.Error("the second start has made another authority")
	}
}

// anotherKey exchanges the private key in a row.
func anotherKey(raw []byte, key []byte) []byte {
	var row map[string]any
	if err := json.Unmarshal(raw, &row); err != nil {
		return nil
	}
	rows, ok := row["row"].(map[string]any)
	if !ok {
		rows = row
	}
	rows["private_key"] = key
	out, err := json.Marshal(row)
	if err != nil {
		return nil
	}
	return out
}

func TestAnAuthorityThatCannotBeReadIsNotReplaced(t *testing.T) {
	key, err := identity.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	other, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		spoil func(raw []byte) []byte
		want  string
	}{
		"not JSON":    {func([]byte) []byte { return []byte("{") }, "authority"},
		"another key": {func(raw []byte) []byte { return anotherKey(raw, other) }, "not that of its certificate"},
		"without key": {func(raw []byte) []byte { return []byte(strings.Replace(string(raw), "private_key", "other", 1)) }, "cannot be used"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "holdfast.db")
			st, _, err := openDurable(t, path)
			if err != nil {
				t.Fatal(err)
			}
			if err := st.Close(); err != nil {
				t.Fatal(err)
			}
			before := edit(t, path, tt.spoil)
			st, _, err = openDurable(t, path)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("opened with %v", err)
			}
			if err := st.Close(); err != nil {
				t.Fatal(err)
			}
			edit(t, path, func(raw []byte) []byte {
				if string(raw) != string(tt.spoil(before)) {
					t.Errorf("the row was changed to %s", raw)
				}
				return raw
			})
		})
	}
}

// edit changes the authority's row on disk, and returns it as it was.
func edit(t *testing.T, path string, change func([]byte) []byte) []byte {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	var before []byte
	err = db.Update(func(tx *bolt.Tx) error {
		return tx.ForEach(func(_ []byte, b *bolt.Bucket) error {
			return b.ForEach(func(k, v []byte) error {
				if strings.HasPrefix(string(k), "authority/") {
					before = append([]byte(nil), v...)
					return b.Put(append([]byte(nil), k...), change(before))
				}
				return nil
			})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if before == nil {
		t.Fatal("no row of the authority was found")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return before
}
