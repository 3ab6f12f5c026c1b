// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package holding

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Collector returns the figures of the holds, as metrics.
func (h *Holding) Collector() prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("holdfast_agent_"+name, help, labels, nil)
	}
	return &collector{
		h:         h,
		sources:   desc("sources", "Sources of storage pools on mounts, by state.", "state"),
		holds:     desc("holds", "Holds on sources, by the kind of their holders.", "kind"),
		waiting:   desc("holds_waiting", "Acquires that are under way."),
		hanging:   desc("hanging_helpers", "Processes of the agent that hang in the kernel."),
		orphans:   desc("orphaned_holds", "Holds whose holder is dead."),
		anomalies: desc("anomalous_releases_total", "Releases of what was not held."),
		events:    desc("hold_events_total", "Events of sources and holds, by kind.", "kind"),
	}
}

type collector struct {
	h                                                            *Holding
	sources, holds, waiting, hanging, orphans, anomalies, events *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(descs chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, descs) }

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	const patience = 2 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	n, err := c.h.set.Count(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(c.sources, err)
		return
	}
	gauge := func(d *prometheus.Desc, v int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	for state, v := range n.Sources {
		gauge(c.sources, v, string(state))
	}
	for kind, v := range n.Holds {
		gauge(c.holds, v, string(kind))
	}
	gauge(c.waiting, n.Waiting)
	gauge(c.hanging, n.Hanging)
	gauge(c.orphans, n.Orphans)
	out <- prometheus.MustNewConstMetric(c.anomalies, prometheus.CounterValue, float64(n.Anomalies))
	for kind, v := range n.Events {
		out <- prometheus.MustNewConstMetric(c.events, prometheus.CounterValue, float64(v), string(kind))
	}
}
