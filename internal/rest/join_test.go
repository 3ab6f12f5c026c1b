// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/identity"
	"github.com/holdfast-storage/holdfast/internal/identity/authority"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

func TestAJoinTokenIsMadeAndToldOnce(t *testing.T) {
	c := newCluster(t)
	a, err := authority.Open(t.Context(), authority.Config{Store: c.store})
	if err != nil {
		t.Fatal(err)
	}
	c.server.Joiner = a
	c.must(http.StatusCreated, "POST", "/v1/nodes", `{"name":"N1","net_interfaces":[{"name":"default","address":"10.0.0.1"}]}`)
	for body, life := range map[string]time.Duration{"": 24 * time.Hour, "{}": 24 * time.Hour, `{"expires_in_s":60}`: time.Minute} {
		var made wire.JoinToken
		c.must(http.StatusOK, "POST", "/v1/nodes/n1/join-token", body).into(&made)
		token, err := identity.ParseToken(string(made.Token))
		if err != nil || token.Node != "N1" || made.NodeName != "N1" || token.Fingerprint != a.Fingerprint() {
			t.Errorf("%q: got %v, %v", body, made.NodeName, err)
		}
		if left := time.Until(time.UnixMilli(made.Expires)); left > life || left < life-10*time.Second {
			t.Errorf("%q: the token is good for %s, want %s", body, left, life)
		}
		if strings.Contains(c.log(), token.Secret) {
			t.Error("the secret is in the log")
		}
	}
}

func TestAJoinTokenThatCannotBeMadeIsRefused(t *testing.T) {
	c := newCluster(t)
	c.must(http.StatusCreated, "POST", "/v1/nodes", `{"name":"n1","net_interfaces":[{"name":"default","address":"10.0.0.1"}]}`)
	e := c.do("POST", "/v1/nodes/n1/join-token", "").code(500, wire.FailInvldRequest)
	if !strings.Contains(e.Cause, "plain text") || !strings.Contains(e.Correction, "--plaintext") {
		t.Errorf("got %+v", e)
	}
	a, err := authority.Open(t.Context(), authority.Config{Store: c.store})
	if err != nil {
		t.Fatal(err)
	}
	c.server.Joiner = a
	c.do("POST", "/v1/nodes/nowhere/join-token", "").code(404, wire.FailNotFoundNode)
	c.do("POST", "/v1/nodes/n1/join-token", `{"expires_in_s":99999999}`).code(500, wire.FailInvldRequest)
	for _, seconds := range []string{"-1", "0", "9223372036854775807", `"soon"`} {
		c.do("POST", "/v1/nodes/n1/join-token", `{"expires_in_s":`+seconds+`}`).code(400, wire.APICallParseError)
	}
	c.do("GET", "/v1/nodes/n1/join-token", "").code(405, wire.UnknownAPICall)
}
