// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/internal/cli"
)

// fakeController serves the answers of testdata/api to reads and one answer to changes, and notes what it is asked.
type fakeController struct {
	*httptest.Server

	status   int    // of the answer to a change
	answer   string // to a change
	requests []string
}

const done = `[{"ret_code":20447233,"message":"Done."}]`

func startController(t *testing.T) *fakeController {
	t.Helper()
	f := &fakeController{status: http.StatusOK, answer: done}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fakeController) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.requests = append(f.requests, strings.TrimSpace(r.Method+" "+r.RequestURI+" "+string(body)))
	w.Header().Set("Content-Type", "application/json")
	if r.Method != http.MethodGet && !reads(r.URL.Path) {
		w.WriteHeader(f.status)
		_, _ = io.WriteString(w, f.answer)
		return
	}
	name := strings.ReplaceAll(strings.TrimPrefix(r.URL.Path, "/v1/"), "/", "__")
	stored, err := os.ReadFile(filepath.Join("testdata", "api", filepath.Base(name)+".json"))
	if err != nil {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `[{"ret_code":-4611686018427387604,"message":"It does not exist."}]`)
		return
	}
	_, _ = w.Write(stored)
}

// reads reports whether a POST to a path changes nothing.
func reads(path string) bool {
	return strings.HasSuffix(path, "/query-size-info") || strings.HasSuffix(path, "/explain")
}

// result is what a run of the program did.
type result struct {
	code           int
	stdout, stderr string
}

// run runs the program with a line of arguments; single quotes hold words together.
func run(t *testing.T, env cli.Env, line string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if env.Stdout == nil {
		env.Stdout = &stdout
	}
	env.Stderr = &stderr
	if env.Location == nil {
		env.Location = time.UTC
	}
	root := &cobra.Command{Use: "holdfast"}
	cli.AddTo(root, env)
	code := cli.Run(t.Context(), root, env, words(line))
	return result{code, stdout.String(), stderr.String()}
}

// at returns an environment whose controllers are at addresses.
func at(addresses ...string) cli.Env {
	return cli.Env{Getenv: func(name string) string {
		if name == "LS_CONTROLLERS" {
			return strings.Join(addresses, ",")
		}
		return ""
	}}
}

func words(line string) []string {
	var out []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			out = append(out, part)
		} else {
			out = append(out, strings.Fields(part)...)
		}
	}
	return out
}

func TestChangesSendWhatLinstorSends(t *testing.T) {
	const rd, rg = "/v1/resource-definitions", "/v1/resource-groups"
	for _, c := range []struct{ line, want string }{
		{"node create n9 10.0.0.9", `POST /v1/nodes {"name":"n9","type":"Satellite","net_interfaces":[{"name":"default","address":"10.0.0.9","satellite_port":3366,"satellite_encryption_type":"PLAIN","is_active":true}]}`},
		{"n c n9 10.0.0.9 --node-type combined --interface-name x --communication-type ssl -p 99", `POST /v1/nodes {"name":"n9","type":"Combined","net_interfaces":[{"name":"x","address":"10.0.0.9","satellite_port":99,"satellite_encryption_type":"SSL","is_active":true}]}`},
		{"n c n9 ::1 --node-type controller", `POST /v1/nodes {"name":"n9","type":"Controller","net_interfaces":[{"name":"default","address":"::1","satellite_port":3370,"satellite_encryption_type":"PLAIN","is_active":true}]}`},
		{"n m n1 -t combined", `PUT /v1/nodes/n1 {"node_type":"Combined"}`},
		{"n d n1 --async", `DELETE /v1/nodes/n1`},
		{"node evacuate n1", `PUT /v1/nodes/n1/evacuate {}`},
		{"n evac n1 --target n2 n3", `PUT /v1/nodes/n1/evacuate {"target":["n2","n3"]}`},
		{"n evac n1 --do-not-target n2,n3", `PUT /v1/nodes/n1/evacuate {"do_not_target":["n2","n3"]}`},
		{"node restore n1", `PUT /v1/nodes/n1/restore {}`},
		{"n rst n1 --delete-resources --delete-snapshots", `PUT /v1/nodes/n1/restore {"delete_resources":true,"delete_snapshots":true}`},
		{"node evict n1", `PUT /v1/nodes/n1/evict`},
		{"node lost n1 --async", `DELETE /v1/nodes/n1/lost`},
		{"n rc n1 n2", "PUT /v1/nodes/n1/reconnect\nPUT /v1/nodes/n2/reconnect"},
		{"nc sp n1 n2 k v", `PUT /v1/node-connections/n1/n2 {"override_props":{"k":"v"}}`},
		{"node-connection path create n1 n2 p if1 if2", `PUT /v1/node-connections/n1/n2 {"override_props":{"Paths/p/n1":"if1","Paths/p/n2":"if2"}}`},
		{"nc p d n1 n2 p", `PUT /v1/node-connections/n1/n2 {"delete_namespaces":["Paths/p"]}`},
		{"nc l n1", "GET /v1/node-connections?node_a=n1"},
		{"rc sp n1 n2 r1 k v", `PUT ` + rd + `/r1/resource-connections/n1/n2 {"override_props":{"k":"v"}}`},
		{"resource-connection path create n1 n2 r1 p if1 if2", `PUT ` + rd + `/r1/resource-connections/n1/n2 {"override_props":{"Paths/p/n1":"if1","Paths/p/n2":"if2"}}`},
		{"rc path delete n1 n2 r1 p", `PUT ` + rd + `/r1/resource-connections/n1/n2 {"delete_namespaces":["Paths/p"]}`},
		{"n i c n1 if2 10.1.1.1 -p 3366 --active", `POST /v1/nodes/n1/net-interfaces {"name":"if2","address":"10.1.1.1","satellite_port":3366,"satellite_encryption_type":"PLAIN","is_active":true}`},
		{"n i c n1 if2 10.1.1.1", `POST /v1/nodes/n1/net-interfaces {"name":"if2","address":"10.1.1.1"}`},
		{"n i m n1 if2 --ip 1.2.3.4 --active", `PUT /v1/nodes/n1/net-interfaces/if2 {"name":"if2","address":"1.2.3.4","is_active":true}`},
		{"n i d n1 if2 if3", "DELETE /v1/nodes/n1/net-interfaces/if2\nDELETE /v1/nodes/n1/net-interfaces/if3"},

		{"sp c lvmthin n1 p vg/t", `POST /v1/nodes/n1/storage-pools {"storage_pool_name":"p","provider_kind":"LVM_THIN","props":{"StorDriver/StorPoolName":"vg/t"}}`},
		{"storage-pool create zfsthin n1 p tank", `POST /v1/nodes/n1/storage-pools {"storage_pool_name":"p","provider_kind":"ZFS_THIN","props":{"StorDriver/StorPoolName":"tank"}}`},
		{"sp c diskless n1 p", `POST /v1/nodes/n1/storage-pools {"storage_pool_name":"p","provider_kind":"DISKLESS"}`},
		{"sp c file n1 p /srv --shared-space s --external-locking", `POST /v1/nodes/n1/storage-pools {"storage_pool_name":"p","provider_kind":"FILE","props":{"StorDriver/StorPoolName":"/srv"},"free_space_mgr_name":"s","external_locking":true}`},
		{"spd c p", `POST /v1/storage-pool-definitions {"storage_pool_name":"p"}`},
		{"spd sp p k v", `PUT /v1/storage-pool-definitions/p {"override_props":{"k":"v"}}`},
		{"spd d p", `DELETE /v1/storage-pool-definitions/p`},
		{"sp d -q n1 n2 p", "DELETE /v1/nodes/n1/storage-pools/p\nDELETE /v1/nodes/n2/storage-pools/p"},

		{"rg c g", `POST ` + rg + ` {"name":"g","select_filter":{}}`},
		{
			"rg c g --place-count 2 -s p1 p2 --replicas-on-same zone --replicas-on-different Aux/rack=2 --x-replicas-on-different dc 2 --diskless-on-remaining true -l drbd,storage -p lvm,lvm_thin --do-not-place-with r1 --do-not-place-with-regex x.* -d 'my group' --peer-slots 5",
			`POST ` + rg + ` {"name":"g","description":"my group","select_filter":{"place_count":2,"storage_pool_list":["p1","p2"],"not_place_with_rsc":["r1"],"not_place_with_rsc_regex":"x.*","replicas_on_same":["Aux/zone"],"replicas_on_different":["Aux/rack=2"],"x_replicas_on_different_map":{"Aux/dc":2},"layer_stack":["DRBD","STORAGE"],"provider_list":["LVM","LVM_THIN"],"diskless_on_remaining":true},"peer_slots":5}`,
		},
		{"rg c -s p1,p2 --place-count 2 g", `POST ` + rg + ` {"name":"g","select_filter":{"place_count":2,"storage_pool_list":["p1","p2"]}}`},
		{"rg c --diskless-on-remaining g", `POST ` + rg + ` {"name":"g","select_filter":{"diskless_on_remaining":true}}`},
		{"rg m g --place-count 0 -s '' --diskless-on-remaining false -l ''", `PUT ` + rg + `/g {"select_filter":{"place_count":0,"storage_pool_list":[],"layer_stack":[],"diskless_on_remaining":false}}`},
		{"rg m g -s", `PUT ` + rg + `/g {"select_filter":{"storage_pool_list":[]}}`},
		{"rg m g --replicas-on-same -d ''", `PUT ` + rg + `/g {"description":"","select_filter":{"replicas_on_same":[]}}`},
		{"rg m g --providers ''", `PUT ` + rg + `/g {"select_filter":{"provider_list":[]}}`},
		{"rg m g --do-not-place-with-regex", `PUT ` + rg + `/g {"select_filter":{"not_place_with_rsc_regex":""}}`},
		{"rg d g", `DELETE ` + rg + `/g`},
		{"rg adjust g", `POST ` + rg + `/g/adjust {}`},
		{"rg adj", `POST ` + rg + `/adjustall {}`},
		{"rg spawn g r1 1G 500M", `POST ` + rg + `/g/spawn {"resource_definition_name":"r1","volume_sizes":[1048576,512000],"select_filter":{},"partial":false,"definitions_only":false}`},
		{"rg spawn-resources g r1 1 -p -d --place-count 3 -s ''", `POST ` + rg + `/g/spawn {"resource_definition_name":"r1","volume_sizes":[1048576],"select_filter":{"place_count":3,"storage_pool_list":[]},"partial":true,"definitions_only":true}`},
		{"rg spawn g r1 1G --volume-passphrase secret --external-name 'a name'", `POST ` + rg + `/g/spawn {"resource_definition_external_name":"a name","volume_sizes":[1048576],"select_filter":{},"partial":false,"definitions_only":false,"volume_passphrases":["secret"]}`},

		{"vg c g", `POST ` + rg + `/g/volume-groups {}`},
		{"vg c g -n 0 --gross", `POST ` + rg + `/g/volume-groups {"volume_number":0,"flags":["GROSS_SIZE"]}`},
		{"vg d g 3", `DELETE ` + rg + `/g/volume-groups/3`},

		{"rd c r1", `POST ` + rd + ` {"resource_definition":{"name":"r1"}}`},
		{"rd c r1 --resource-group g -l drbd,luks,storage -p 7001 --peer-slots 3 -e ext", `POST ` + rd + ` {"drbd_port":7001,"drbd_peer_slots":3,"resource_definition":{"external_name":"ext","layer_data":[{"type":"DRBD"},{"type":"LUKS"},{"type":"STORAGE"}],"resource_group_name":"g"}}`},
		{"rd d r1 r2", "DELETE " + rd + "/r1\nDELETE " + rd + "/r2"},
		{"rd m r1 --resource-group g2", `PUT ` + rd + `/r1 {"resource_group":"g2"}`},
		{"rd m r1 --peer-slots 5", `PUT ` + rd + `/r1 {"drbd_peer_slots":5}`},
		{"rd ap r1", `POST ` + rd + `/r1/autoplace {"select_filter":{}}`},
		{"rd ap r1 --place-count 2", `POST ` + rd + `/r1/autoplace {"select_filter":{"place_count":2}}`},

		{"vd c r1 1G", `POST ` + rd + `/r1/volume-definitions {"volume_definition":{"size_kib":1048576}}`},
		{"vd c r1 10MB -n 3 -m 1001 --gross -s pool --encrypt", `POST ` + rd + `/r1/volume-definitions {"volume_definition":{"volume_number":3,"size_kib":9766,"props":{"StorPoolName":"pool"},"flags":["ENCRYPTED","GROSS_SIZE"]},"drbd_minor_number":1001}`},
		{"vd size r1 0 2G --gross", `PUT ` + rd + `/r1/volume-definitions/0 {"size_kib":2097152,"flags":["GROSS_SIZE"]}`},
		{"vd set-size r1 0 2097152K", `PUT ` + rd + `/r1/volume-definitions/0 {"size_kib":2097152}`},
		{"vd d r1 0", `DELETE ` + rd + `/r1/volume-definitions/0`},

		{"r c n1 n2 r1", `POST ` + rd + `/r1/resources [{"resource":{"node_name":"n1"}},{"resource":{"node_name":"n2"}}]`},
		{"r c n1 r1 -s p -l storage --node-id 3 --drbd-tcp-port 7000", `POST ` + rd + `/r1/resources [{"resource":{"node_name":"n1","props":{"StorPoolName":"p"}},"layer_list":["STORAGE"],"drbd_node_id":3,"drbd_tcp_ports":[7000]}]`},
		{"r c n1 r1 --drbd-diskless", `POST ` + rd + `/r1/resources [{"resource":{"node_name":"n1","flags":["DRBD_DISKLESS"]}}]`},
		{"r c n1 r1 -d --inactive", `POST ` + rd + `/r1/resources [{"resource":{"node_name":"n1","flags":["DISKLESS","INACTIVE"]}}]`},
		{"r c r1 --auto-place 2 -s p -l drbd,storage", `POST ` + rd + `/r1/autoplace {"select_filter":{"place_count":2,"storage_pool_list":["p"],"layer_stack":["DRBD","STORAGE"]},"layer_list":["DRBD","STORAGE"]}`},
		{"r c r1 --auto-place +1", `POST ` + rd + `/r1/autoplace {"select_filter":{"additional_place_count":1}}`},
		{"r mkavail n1 r1", `POST ` + rd + `/r1/resources/n1/make-available {}`},
		{"r make-available n1 r1 --diskful -l drbd,storage --drbd-tcp-port 7001", `POST ` + rd + `/r1/resources/n1/make-available {"layer_list":["DRBD","STORAGE"],"diskful":true,"drbd_tcp_ports":[7001]}`},
		{"r d n1 n2 r1", "DELETE " + rd + "/r1/resources/n1\nDELETE " + rd + "/r1/resources/n2"},
		{"r d n1 r1 --keep-tiebreaker", "DELETE " + rd + "/r1/resources/n1?keep_tiebreaker=true"},

		{"c set-log-level debug", `PUT /v1/controller/config {"log":{"level_linstor":"DEBUG"}}`},
		{"c set-log-level WARN --library --global", `PUT /v1/controller/config {"log":{"level_global":"WARN"}}`},
		{"orphans remove n1 p a b", `DELETE /v1/nodes/n1/storage-pools/p/orphans?volume=a&volume=b`},
		{"c sp k v", `POST /v1/controller/properties {"override_props":{"k":"v"}}`},
		{"c sp k", `POST /v1/controller/properties {"delete_props":["k"]}`},
		{"c sp --aux k v", `POST /v1/controller/properties {"override_props":{"Aux/k":"v"}}`},
		{"n sp n1 --aux Aux/k v", `PUT /v1/nodes/n1 {"override_props":{"Aux/k":"v"}}`},
		{"n sp n1 k ''", `PUT /v1/nodes/n1 {"delete_props":["k"]}`},
		{"sp sp n1 p k v", `PUT /v1/nodes/n1/storage-pools/p {"override_props":{"k":"v"}}`},
		{"rg sp g k v", `PUT ` + rg + `/g {"override_props":{"k":"v"}}`},
		{"vg sp g 0 k v", `PUT ` + rg + `/g/volume-groups/0 {"override_props":{"k":"v"}}`},
		{"rd sp r1 k v", `PUT ` + rd + `/r1 {"override_props":{"k":"v"}}`},
		{"vd sp r1 0 k v", `PUT ` + rd + `/r1/volume-definitions/0 {"override_props":{"k":"v"}}`},
		{"r sp n1 r1 k v", `PUT ` + rd + `/r1/resources/n1 {"override_props":{"k":"v"}}`},
		{"v sp n1 r1 0 k v", `PUT ` + rd + `/r1/resources/n1/volumes/0 {"override_props":{"k":"v"}}`},
		{"kv m kv1 k v", `PUT /v1/key-value-store/kv1 {"override_props":{"k":"v"}}`},
		{"kv m kv1 k", `PUT /v1/key-value-store/kv1 {"delete_props":["k"]}`},
		{"err d a b --nodes n1", `PATCH /v1/error-reports {"nodes":["n1"],"ids":["a","b"]}`},

		{"n l -n n1 n2 --props Aux/a=b", "GET /v1/nodes?nodes=n1&nodes=n2&props=Aux%2Fa%3Db"},
		{"sp l -s p -n n1,n2", "GET /v1/view/storage-pools?nodes=n1&nodes=n2&storage_pools=p"},
		{"rd l -r r1", "GET /v1/resource-definitions?resource_definitions=r1"},
		{"vd l -r r1", "GET /v1/resource-definitions?resource_definitions=r1&with_volume_definitions=true"},
		{"r l -r r1 r2 -n n1", "GET /v1/view/resources?nodes=n1&resources=r1&resources=r2"},
		{"r lv -s p", "GET /v1/view/resources?storage_pools=p"},
		{"v l -n n1 -s p -r r1", "GET /v1/view/resources?nodes=n1&resources=r1&storage_pools=p"},
		{"rg explain ssd 1G 2G -s p", `POST ` + rg + `/ssd/explain {"volume_sizes":[1048576,2097152],"select_filter":{"storage_pool_list":["p"]}}`},
		{"rg qsi ssd --place-count 3", `POST ` + rg + `/ssd/query-size-info {"select_filter":{"place_count":3}}`},
	} {
		t.Run(c.line, func(t *testing.T) {
			f := startController(t)
			got := run(t, at(f.URL), c.line)
			if got.code != cli.ExitOK || got.stderr != "" {
				t.Fatalf("exit %d: %s", got.code, got.stderr)
			}
			if sent := strings.Join(f.requests, "\n"); sent != c.want {
				t.Errorf("\nsent %s\nwant %s", sent, c.want)
			}
		})
	}
}

func TestGlobalFlagsMayStandAnywhere(t *testing.T) {
	for _, line := range []string{
		"-m node list", "node list -m", "node -m list", "--machine-readable node list", "node list --machine-readable", "-t 5 -m n l", "-t5 -m n l",
		"--controllers %s -m n l", "-m --controllers=%s n l", "n l -m -t 5", "--timeout 5 -m --no-color n l",
	} {
		f := startController(t)
		got := run(t, at(f.URL), strings.ReplaceAll(line, "%s", f.URL))
		if got.code != cli.ExitOK || !strings.HasPrefix(got.stdout, "[\n  [\n    {") {
			t.Errorf("%s: exit %d, printed %.40q, %s", line, got.code, got.stdout, got.stderr)
		}
	}
	f := startController(t)
	run(t, at(f.URL), "vd c r1 1 -m 1001") // Here -m is the command's own.
	if len(f.requests) != 1 || !strings.Contains(f.requests[0], `"drbd_minor_number":1001`) {
		t.Errorf("sent %v", f.requests)
	}
}

func TestControllersComeFromTheFlagOrElseTheEnvironment(t *testing.T) {
	a, b := startController(t), startController(t)
	if got := run(t, at(a.URL), "--controllers "+b.URL+" n l"); got.code != cli.ExitOK || len(a.requests) != 0 || len(b.requests) != 1 {
		t.Errorf("exit %d, asked %v and %v", got.code, a.requests, b.requests)
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	if got := run(t, at(gone.URL, " ", a.URL), "n l"); got.code != cli.ExitOK || len(a.requests) != 1 {
		t.Errorf("exit %d, asked %v: %s", got.code, a.requests, got.stderr)
	}
	var asked string
	env := at()
	env.HTTP = &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		asked = r.URL.Host
		return nil, errors.New("stop here")
	})}
	if run(t, env, "n l"); asked != "localhost:3370" {
		t.Errorf("by default %s is asked", asked)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestTheControllerThatAnswersIsShown(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	f := startController(t)
	if got := run(t, at(gone.URL, f.URL), "c which"); got.code != cli.ExitOK || got.stdout != f.URL+"\n" {
		t.Errorf("exit %d, printed %q", got.code, got.stdout)
	}
}

func TestSyncIsWaitedFor(t *testing.T) {
	asked := 0
	answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		_, _ = io.WriteString(w, fmt.Sprintf(`{"synced_on_all":%t}`, asked == 3))
	}))
	t.Cleanup(answers.Close)
	env := at(answers.URL)
	env.Poll = time.Millisecond
	if got := run(t, env, "rd wait-sync r1"); got.code != cli.ExitOK || asked != 3 {
		t.Errorf("exit %d after %d questions: %s", got.code, asked, got.stderr)
	}
	env.Poll = time.Hour
	if got := run(t, env, "rd wait-sync r1 --wait-timeout 1"); got.code != cli.ExitTimeout || !strings.Contains(got.stderr, "do not hold the same data yet") {
		t.Errorf("exit %d: %s", got.code, got.stderr)
	}
}

func TestNameOfANewNodeIsResolved(t *testing.T) {
	f := startController(t)
	env := at(f.URL)
	env.LookupHost = func(_ context.Context, host string) ([]string, error) {
		if host == "n9" {
			return []string{"10.0.0.9", "10.0.0.10"}, nil
		}
		return nil, errors.New("no such host")
	}
	if got := run(t, env, "n c n9"); got.code != cli.ExitOK || !strings.Contains(f.requests[0], `"address":"10.0.0.9"`) {
		t.Errorf("exit %d, sent %v", got.code, f.requests)
	}
	if got := run(t, env, "n c n8"); got.code != cli.ExitUsage || !strings.Contains(got.stderr, "resolve n8: no such host; give the address") {
		t.Errorf("exit %d: %s", got.code, got.stderr)
	}
}
