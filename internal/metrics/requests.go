// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-storage/holdfast/internal/rest"
)

// requests counts the requests of the REST API.
type requests struct {
	answered *prometheus.CounterVec
	took     *prometheus.HistogramVec
	sent     *prometheus.CounterVec
}

func newRequests() *requests {
	return &requests{
		answered: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_http_requests_total", Help: "Requests answered, by route and status.",
		}, []string{"method", "route", "status"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "holdfast_http_request_duration_seconds", Help: "Time from a request until it was answered, by route.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 120},
		}, []string{"method", "route"}),
		sent: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_http_response_bytes_total", Help: "Bytes of the bodies of answers as sent, by route.",
		}, []string{"method", "route"}),
	}
}

// register registers the families.
func (r *requests) register(to prometheus.Registerer) { to.MustRegister(r.answered, r.took, r.sent) }

func (r *requests) measure(m rest.Measurement) {
	method, route := m.Method, m.Route
	if route == "" {
		// Nothing bounds what clients ask for beside the API.
		route = "none"
		if !slices.Contains([]string{
			http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
		}, method) {
			method = "other"
		}
	}
	status := "none" // The client was gone before there was one.
	if m.Status >= 100 && m.Status <= 599 {
		status = strconv.Itoa(m.Status)
	}
	r.answered.WithLabelValues(method, route, status).Inc()
	r.took.WithLabelValues(method, route).Observe(m.Took.Seconds())
	r.sent.WithLabelValues(method, route).Add(float64(m.Bytes))
}
