// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"context"
	"flag"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/store"
	"github.com/holdfast-storage/holdfast/test/cluster"
	"github.com/holdfast-storage/holdfast/test/transcript"
)

var update = flag.Bool("update", false, "rewrite the answers in the transcripts")

func TestClients(t *testing.T) {
	transcript.Run(t, "testdata/*.txt", *update, func(t *testing.T) *transcript.Player {
		t.Helper()
		t.Parallel()
		w := &world{Cluster: cluster.Start(t, cluster.Options{TieBreakers: true, Settings: []store.Setting{store.Paranoid()}}), t: t}
		t.Cleanup(w.Check)
		return &transcript.Player{URL: w.URL, Order: w.order}
	})
}

// world is the cluster that a transcript is played against.
type world struct {
	*cluster.Cluster
	t *testing.T
}

// poolSize is the size of the pool that every node has.
const poolSize = 100 << 30

// order does something to a simulated host.
func (w *world) order(words ...string) {
	w.t.Helper()
	switch name := words[1]; words[0] {
	case "node": // with one pool; a plain one cannot run DRBD
		w.node(name, slices.Contains(words, "plain"))
	case "halt":
		w.StopAgent(name)
	case "start":
		w.StartAgent(name)
	case "use":
		w.Agents[name].Use(words[2], words[3])
	case "leave":
		w.Agents[name].Leave(words[2])
	case "wait":
		text := strings.TrimSpace(strings.Join(words[2:], " "))
		w.Until(func() bool { _, body := w.get(name); return strings.Contains(body, text) })
	case "gone":
		w.Until(func() bool { status, _ := w.get(name); return status == http.StatusNotFound })
	default:
		w.t.Fatalf("unknown order %q", words)
	}
}

func (w *world) node(name string, plain bool) {
	w.t.Helper()
	w.Register(name)
	a := w.Agents[name]
	a.Resize(cluster.Pool, poolSize)
	a.Devices, a.SetLogLevel = shelf{}, func(string) error { return nil }
	if plain {
		a.Layers = []model.Layer{model.Storage}
	}
	w.StartAgent(name)
	w.AddPool(name, cluster.Pool)
}

// shelf is the devices of each host: two free ones, of which LVM makes what is asked for.
type shelf struct{}

func (shelf) List(context.Context) ([]*agentpb.Device, error) {
	return []*agentpb.Device{
		{Path: "/dev/sdb", Size: 8 << 30, Rotational: true, Model: "M", Serial: "S1", Wwn: "0x5000"},
		{Path: "/dev/nvme0n1", Size: 4 << 30},
	}, nil
}

func (shelf) CreateBackend(_ context.Context, b *agentpb.CreateBackend) error {
	if strings.HasPrefix(b.GetProvider(), "LVM") {
		return nil
	}
	return errs.New(errs.Unsupported, errs.Node, "this host has no %s", b.GetProvider())
}

// get returns the status and the text that a path answers with.
func (w *world) get(path string) (int, string) {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.URL+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}
