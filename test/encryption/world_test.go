// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package encryption_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfast-storage/holdfast/client"
	"github.com/holdfast-storage/holdfast/internal/agent/fakeagent"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
	"github.com/holdfast-storage/holdfast/test/cluster"
)

// world is a cluster whose controller can be started anew, with all that it ever told anybody.
type world struct {
	*cluster.Cluster
	t    *testing.T
	disk *kvtest.Memory
	api  *client.Client
	log  *journal // of the controllers and all agents
	dirs string   // below which the agents keep what they keep
}

// journal is a log that a test can read.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) has(text string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return bytes.Contains(j.text.Bytes(), []byte(text))
}

func (w *world) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// start starts a cluster with some nodes.
func start(t *testing.T, nodes int) *world {
	t.Helper()
	w := &world{t: t, disk: kvtest.NewMemory(), log: &journal{}, dirs: t.TempDir()}
	w.Cluster = cluster.Start(t, cluster.Options{
		Engine: w.disk, Nodes: nodes, Log: w.logger(), Settings: []store.Setting{store.Paranoid()},
		Agent: func(a *fakeagent.Agent) { a.StateDir, a.Log = filepath.Join(w.dirs, a.Node), w.logger() },
	})
	w.dial()
	return w
}

func (w *world) dial() { w.api = must(client.New([]string{w.URL}))(w.t) }

// again starts the controller anew, on the same database, and all agents; some of their hosts are booted meanwhile.
func (w *world) again(booted ...string) *world {
	w.t.Helper()
	old := w.Cluster
	for name := range old.Agents {
		old.StopAgent(name)
	}
	w.disk.Crash()
	next := &world{t: w.t, disk: w.disk.Peer(), log: w.log, dirs: w.dirs}
	next.Cluster = cluster.Start(w.t, cluster.Options{Engine: next.disk, Log: w.logger(), Settings: []store.Setting{store.Paranoid()}})
	for name, a := range old.Agents {
		a.Dial = func(string) (*grpc.ClientConn, error) {
			return grpc.NewClient(next.AgentAddress, grpc.WithTransportCredentials(insecure.NewCredentials()))
		}
		next.Agents[name] = a
	}
	for _, name := range booted {
		next.Agents[name].Reboot()
	}
	for name := range next.Agents {
		next.StartAgent(name)
	}
	next.dial()
	return next
}

func nobody(string) (*grpc.ClientConn, error) { return nil, errors.New("no controller is there") }

// damage changes the key of a volume in the database.
func (w *world) damage(name string) {
	w.t.Helper()
	_, err := w.Store.Update(w.t.Context(), func(tx *store.Tx) error {
		vd, _ := schema.VolumeDefinitions.Get(tx, model.VolumeDefinitionID{Definition: model.DefinitionName(name).Key()})
		vd.Key = append([]byte{vd.Key[0] + 1}, vd.Key[1:]...)
		return schema.VolumeDefinitions.Update(tx, vd)
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// keys returns all keys that agents were ever sent.
func (w *world) keys() map[string]bool {
	all := map[string]bool{}
	for _, a := range w.Agents {
		for _, m := range a.Assigned() {
			for _, r := range m.GetResources() {
				for _, v := range r.GetVolumes() {
					if key := v.GetLuks().GetKey(); len(key) > 0 {
						all[string(key)] = true
					}
				}
			}
		}
	}
	return all
}

// noSecretWasTold looks for keys and passphrases in all that is kept, logged and answered.
func (w *world) noSecretWasTold() {
	w.t.Helper()
	keys := w.keys()
	if len(keys) == 0 {
		w.t.Error("there are no keys to look for")
	}
	needles := map[string][]byte{first: []byte(first), second: []byte(second)}
	for key := range keys {
		name := "a key"
		for form, text := range map[string]string{
			"plain": key, "hexadecimal": hex.EncodeToString([]byte(key)), "base64": base64.StdEncoding.EncodeToString([]byte(key)),
		} {
			needles[name+", "+form] = []byte(text)
		}
		for where, text := range w.told() {
			for what, needle := range needles {
				if bytes.Contains(text, needle) {
					w.t.Errorf("%s is in %s", what, where)
				}
			}
		}
	}
}

// told returns all that is kept, logged and answered.
func (w *world) told() map[string][]byte {
	w.t.Helper()
	all := map[string][]byte{}
	w.log.mu.Lock()
	all["the logs"] = bytes.Clone(w.log.text.Bytes())
	w.log.mu.Unlock()
	must(0, filepath.WalkDir(w.dirs, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			all[path], err = os.ReadFile(path)
		}
		if errors.Is(err, fs.ErrNotExist) { // An agent has just replaced it.
			return nil
		}
		return err
	}))(w.t)
	_, rows, err := load(w.t, w.disk)
	if err != nil {
		w.t.Fatal(err)
	}
	all["the database"] = rows
	for _, path := range []string{
		"/v1/nodes", "/v1/resource-definitions?with_volume_definitions=true", "/v1/view/resources", "/v1/view/snapshots", "/v1/view/storage-pools",
		"/v1/controller/properties", "/v1/controller/config", "/v1/error-reports", "/v1/encryption/passphrase", "/v1/resource-groups", "/metrics",
	} {
		all[path] = w.get(path)
	}
	for _, report := range must(w.api.ErrorReports(w.t.Context(), client.ErrorReportFilter{}))(w.t) {
		all["error report "+report.Filename] = w.get("/v1/error-reports/" + report.Filename)
	}
	return all
}

// load returns all rows of a database.
func load(t *testing.T, disk *kvtest.Memory) (count int, rows []byte, failed error) {
	t.Helper()
	_, entries := disk.Load(t.Context())
	for e, err := range entries {
		if err != nil {
			return count, rows, err
		}
		rows = append(append(rows, e.Key...), e.Value...)
		count++
	}
	return count, rows, nil
}

func (w *world) get(path string) []byte {
	w.t.Helper()
	request := must(http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.URL+path, nil))(w.t)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	return must(io.ReadAll(answer.Body))(w.t)
}

// must returns what a call returned, and ends the test when it failed.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// ok ends the test when a call of the API failed.
func ok(t *testing.T) func(client.RcList, error) {
	t.Helper()
	return func(_ client.RcList, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

func oneLine(t *testing.T, v any) string {
	t.Helper()
	return string(must(json.Marshal(v))(t))
}
