// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package etcdkv_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/etcdkv"
	"github.com/holdfast-storage/holdfast/internal/kv/etcdkv/etcdtest"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
)

// endpointsVariable tells a child of the suite where the cluster is.
const endpointsVariable = "HOLDFAST_ETCDKV_ENDPOINTS"

// engine makes an engine on a map of its own.
func engine(t *testing.T, endpoints []string, prefix string) *etcdkv.Engine {
	t.Helper()
	e, err := etcdkv.New(etcdkv.Settings{Endpoints: endpoints, Prefix: prefix, Patience: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func suite(t *testing.T, members int) {
	t.Helper()
	var endpoints []string
	if told := os.Getenv(endpointsVariable); told != "" {
		endpoints = strings.Split(told, ",")
	} else {
		endpoints = etcdtest.Start(t, etcdtest.Options{Members: members}).Endpoints
		t.Setenv(endpointsVariable, strings.Join(endpoints, ","))
	}
	var maps atomic.Int64
	kvtest.TestEngine(t, kvtest.Subject{
		New: func(t *testing.T) func() kv.Engine {
			t.Helper()
			prefix := fmt.Sprintf("/map/%d/", maps.Add(1))
			return func() kv.Engine { return engine(t, endpoints, prefix) }
		},
		Hold:    etcdkv.Hold,
		Unknown: etcdkv.LoseAnswers,
		Compact: etcdkv.Compact,
		Child:   func(dir string) kv.Engine { return engine(t, endpoints, "/child/"+filepath.Base(dir)) },
	})
}

func TestOneMember(t *testing.T) { suite(t, 1) }

func TestThreeMembers(t *testing.T) { suite(t, 3) }
