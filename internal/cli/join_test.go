// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/cli"
)

func TestAJoinTokenIsAllThatIsPrinted(t *testing.T) {
	f := startController(t)
	f.answer = `{"node_name":"n1","token":"holdfast1:n1:SECRET:00","expires_timestamp":1700000000000}`
	for line, want := range map[string]string{
		"node join-token n1":            "POST /v1/nodes/n1/join-token {}",
		"n join-token n1 --expires 90m": `POST /v1/nodes/n1/join-token {"expires_in_s":5400}`,
	} {
		r := run(t, at(f.URL), line)
		if r.code != cli.ExitOK || r.stdout != "holdfast1:n1:SECRET:00\n" || r.stderr != "" {
			t.Errorf("%s: got %+v", line, r)
		}
		if !slices.Contains(f.requests, want) {
			t.Errorf("%s: the requests are %q, want %q", line, f.requests, want)
		}
	}
	r := run(t, at(f.URL), "-m node join-token n1")
	if r.code != cli.ExitOK || !strings.HasPrefix(r.stdout, "[\n") || !strings.Contains(r.stdout, `"token": "holdfast1:n1:SECRET:00"`) {
		t.Errorf("got %+v", r)
	}
}

func TestAJoinTokenThatIsRefused(t *testing.T) {
	f := startController(t)
	for _, line := range []string{"node join-token", "node join-token a b", "node join-token n1 --expires 1ms", "node join-token n1 --expires soon"} {
		if r := run(t, at(f.URL), line); r.code != cli.ExitUsage || len(f.requests) > 0 {
			t.Errorf("%s: got %+v, requests %q", line, r, f.requests)
		}
	}
	f.status, f.answer = http.StatusNotFound, `[{"ret_code":-4611686018425290756,"message":"node n1 does not exist"}]`
	if r := run(t, at(f.URL), "node join-token n1"); r.code != cli.ExitNotFound || !strings.Contains(r.stdout, "node n1 does not exist") {
		t.Errorf("got %+v", r)
	}
}
