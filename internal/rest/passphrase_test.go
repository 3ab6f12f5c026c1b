// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest_test

import (
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/wire"
)

func TestThePassphraseOfTheClusterIsCreatedEnteredAndChanged(t *testing.T) {
	c := newCluster(t)
	const path = "/v1/encryption/passphrase"
	status := func(want string) {
		t.Helper()
		var s wire.PassphraseStatus
		c.must(200, "GET", path, "").into(&s)
		if s.Status != want {
			t.Errorf("the status is %q, want %q", s.Status, want)
		}
	}
	status(wire.PassphraseUnset)
	c.do("PATCH", path, `"first one"`).code(500, wire.FailMissingProps)
	c.do("PUT", path, `{"old_passphrase":"a","new_passphrase":"b"}`).code(500, wire.FailExistsCryptPassphrase)
	c.do("POST", path, `{"new_passphrase":""}`).code(500, wire.FailInvldCryptPassphrase)
	c.must(201, "POST", path, `{"new_passphrase":"first one"}`)
	status(wire.PassphraseUnlocked)
	c.do("POST", path, `{"new_passphrase":"second one"}`).code(500, wire.FailExistsCryptPassphrase)
	c.do("PATCH", path, `"second one"`).code(500, wire.FailMissingProps)
	if l := c.must(200, "PATCH", path, `"first one"`).entries(); l[0].RetCode&0xffff != wire.PassphraseAccepted&0xffff {
		t.Errorf("an accepted passphrase is answered with %v", l)
	}
	c.do("PUT", path, `{"old_passphrase":"second one","new_passphrase":"x"}`).code(500, wire.FailMissingProps)
	c.must(200, "PUT", path, `{"old_passphrase":"first one","new_passphrase":"second one"}`)
	c.must(200, "PATCH", path, `"second one"`)
	for _, secret := range []string{"first one", "second one"} {
		if strings.Contains(c.log(), secret) {
			t.Errorf("the log has a passphrase")
		}
	}
}
