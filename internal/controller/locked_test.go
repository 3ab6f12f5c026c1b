// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/agent/fakeagent"
	"github.com/holdfast-storage/holdfast/internal/kv/etcdkv/etcdtest"
)

// ask makes a request, and returns its status and the answer.
func ask(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = r.Body.Close() }()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err.Error()
	}
	return r.StatusCode, string(text)
}

// A controller that takes over does not know the passphrase that the one before it knew: what is open stays open, and it
// goes on when somebody enters it.
func TestAMemberThatBeginsToLeadIsLocked(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	one, agents1, url1, stop1 := member(t, c, "one", nil)
	eventually(t, "one leads", one.Leads)
	two, agents2, url2, _ := member(t, c, "two", nil)
	a := &fakeagent.Agent{Node: "n1", Addresses: []string{agents2, agents1}, Dial: dial}
	run(t, a)
	is := func(url, path, text string) func() bool {
		return func() bool {
			status, got := ask(t, "GET", url+path, "")
			return status == 200 && strings.Contains(got, text)
		}
	}
	must := func(method, path, body string) {
		t.Helper()
		if status, text := ask(t, method, url2+path, body); status == 0 || status >= 300 {
			t.Fatalf("%s %s: %d %s", method, path, status, text)
		}
	}
	spawn := func(name string) string {
		return `{"resource_definition_name":"` + name + `","volume_sizes":[65536],"select_filter":{"place_count":1,"layer_stack":["LUKS","STORAGE"]}}`
	}
	const passphrase, group = "/v1/encryption/passphrase", "/v1/resource-groups/DfltRscGrp/spawn"
	eventually(t, "two passes on", func() bool {
		status, _ := ask(t, "POST", url2+"/v1/nodes", `{"name":"n1","net_interfaces":[{"name":"default","address":"127.0.0.1"}]}`)
		return status == 201
	})
	eventually(t, "the node is online", is(url2, "/v1/nodes/n1", "ONLINE"))
	must("POST", "/v1/nodes/n1/storage-pools", `{"storage_pool_name":"data","provider_kind":"FILE_THIN","props":{"StorDriver/StorPoolName":"/srv"}}`)
	must("POST", passphrase, `{"new_passphrase":"correct horse"}`)
	must("POST", group, spawn("vol"))
	for _, url := range []string{url1, url2} {
		if !is(url, passphrase, "unlocked")() {
			t.Errorf("%s does not say that the leader knows the passphrase", url)
		}
	}

	stop1()
	eventually(t, "two leads", two.Leads)
	eventually(t, "two is locked", is(url2, passphrase, `"locked"`))
	eventually(t, "the volume is as it was", is(url2, "/v1/view/resources?resources=vol", `"opened":true`))
	if status, text := ask(t, "POST", url2+group, spawn("more")); status != 500 || !strings.Contains(text, "enter-passphrase") {
		t.Errorf("a new volume is answered %d %s", status, text)
	}
	must("PATCH", passphrase, `"correct horse"`)
	must("POST", group, spawn("more"))
}
