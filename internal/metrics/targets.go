// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"encoding/json"
	"net"
	"net/http"

	"github.com/holdfast-storage/holdfast/internal/schema"
)

// reactorPort is where drbd-reactor serves its metrics by default.
const reactorPort = "9942"

// targets answers where the metrics of DRBD are, in the form that Prometheus' discovery by
// HTTP takes: an address for each node with an agent.
func (e *Exporter) targets(w http.ResponseWriter) {
	view := e.Store.Snapshot()
	addresses := []string{}
	for n := range schema.Nodes.All(view) {
		if !n.Type.RunsAgent() {
			continue
		}
		for i := range schema.InterfacesOf(view, n.Name.Key()) {
			if i.Active {
				addresses = append(addresses, net.JoinHostPort(i.Address, reactorPort))
			}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode([]struct { // The client is gone; there is nobody to tell.
		Targets []string `json:"targets"`
	}{{addresses}})
}
