// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package ha_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// state is what there is of one definition.
type state struct {
	Exists bool
	Group  string
	Value  string
}

// The kinds of calls about a definition.
type kind int

const (
	spawn kind = iota
	remove
	move
	set
	look // get, and list: what it shows of the definition
)

// call is one call about one definition.
type call struct {
	Kind  kind
	Name  string
	To    string // the group or the value
	Known bool   // the call was answered
	Found bool   // the definition was there, by the answer
	Seen  state  // by look
}

// apply returns the state after a call that was carried out, and whether the answer to it is right.
func (c call) apply(s state) (after state, right bool) {
	switch c.Kind {
	case spawn:
		if s.Exists {
			return s, !c.Found
		}
		return state{Exists: true, Group: "dflt"}, c.Found
	case remove:
		return state{}, c.Found == s.Exists
	case move:
		if s.Exists {
			s.Group = c.To
			return s, c.Found
		}
		return s, !c.Found
	case set:
		if s.Exists {
			s.Value = c.To
			return s, c.Found
		}
		return s, !c.Found
	default:
		return s, c.Seen == s
	}
}

// model says which histories one controller that never fails could show. Definitions do not depend on each other.
func model() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
			byName := map[string][]porcupine.Operation{}
			for _, o := range all {
				name := o.Input.(call).Name
				byName[name] = append(byName[name], o)
			}
			var parts [][]porcupine.Operation
			for _, p := range byName {
				parts = append(parts, p)
			}
			return parts
		},
		Init: func() []any { return []any{state{}} },
		Step: func(now, input, _ any) []any {
			s, c := now.(state), input.(call)
			if c.Known {
				if after, right := c.apply(s); right {
					return []any{after}
				}
				return nil
			}
			after, _ := c.apply(s)
			if after == s {
				return []any{s}
			}
			return []any{s, after} // it was carried out, or never will be
		},
		DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", input) },
	}
	return m.ToModel()
}

// history is what clients did and saw.
type history struct {
	mu      sync.Mutex
	began   time.Time
	all     []porcupine.Operation
	known   int
	unknown int
	old     int // answers that said that they may be old
	strange []string
}

func (h *history) now() int64 { return int64(time.Since(h.began)) }

func (h *history) add(client int, began int64, c call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := porcupine.Operation{ClientId: client, Input: c, Call: began, Return: h.now()}
	if c.Known {
		h.known++
	} else {
		if c.Kind == look {
			return // it says nothing
		}
		h.unknown++
		o.Return = math.MaxInt64 // it may be carried out at any time
	}
	h.all = append(h.all, o)
}

// judge fails the test when no controller that never fails could have shown the history.
func (h *history) judge(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	t.Logf("%d answers, %d calls of unknown outcome, %d answers that may be old", h.known, h.unknown, h.old)
	for _, s := range h.strange {
		t.Error(s)
	}
	const enough = 60 * time.Second
	switch r := porcupine.CheckOperationsTimeout(model(), h.all, enough); r {
	case porcupine.Ok:
	case porcupine.Illegal:
		t.Error("the history is not linearizable")
	default:
		t.Errorf("the history was not judged within %s", enough)
	}
}

// client works on definitions over the REST API, with one controller after the other.
type client struct {
	id    int
	h     *history
	names []string
	urls  []string
	r     *rand.Rand
	http  *http.Client
	at    int
}

func newClient(id int, h *history, names, urls []string) *client {
	return &client{
		id: id, h: h, names: names, urls: urls, r: rand.New(rand.NewPCG(uint64(id), 7)),
		http: &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{
			DialContext: (&net.Dialer{Timeout: time.Second}).DialContext, MaxIdleConnsPerHost: 4,
		}},
	}
}

var (
	errOld     = errors.New("the answer may be old")
	errNotSent = errors.New("nobody took the request")
)

// do makes one request. An error means that nothing is known of its outcome.
func (c *client) do(ctx context.Context, method, path, body string) (status int, text []byte, err error) {
	q, err := http.NewRequestWithContext(ctx, method, c.urls[c.at%len(c.urls)]+path, bytes.NewBufferString(body))
	if err != nil {
		return 0, nil, err
	}
	a, err := c.http.Do(q)
	if err == nil {
		text, err = io.ReadAll(a.Body)
		err = errors.Join(err, a.Body.Close())
	}
	switch {
	case err != nil:
		c.at++
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
			err = errors.Join(errNotSent, err)
		}
		return 0, nil, err
	case a.StatusCode == http.StatusServiceUnavailable, a.StatusCode == http.StatusBadGateway:
		c.at++
		return 0, nil, fmt.Errorf("status %d", a.StatusCode)
	case a.Header.Get("Warning") != "":
		c.h.mu.Lock()
		c.h.old++
		c.h.mu.Unlock()
		return 0, nil, errOld
	}
	return a.StatusCode, text, nil
}

// definition is what the API shows of one.
type definition struct {
	Name  string            `json:"name"`
	Group string            `json:"resource_group_name"`
	Props map[string]string `json:"props"`
}

func (d definition) state() state {
	group := d.Group
	if group == "DfltRscGrp" {
		group = "dflt"
	}
	return state{Exists: true, Group: group, Value: d.Props["Aux/value"]}
}

// step makes one call and notes it.
func (c *client) step(ctx context.Context) {
	name := c.names[c.r.IntN(len(c.names))]
	op := call{Name: name}
	began := c.h.now()
	path := "/v1/resource-definitions/" + name
	var status int
	var text []byte
	var err error
	switch n := c.r.IntN(12); {
	case n < 3:
		op.Kind = spawn
		status, text, err = c.do(ctx, "POST", "/v1/resource-groups/DfltRscGrp/spawn",
			fmt.Sprintf(`{"resource_definition_name":%q,"volume_sizes":[1024],"definitions_only":true}`, name))
	case n < 5:
		op.Kind = remove
		status, text, err = c.do(ctx, "DELETE", path, "")
	case n < 6:
		op.Kind, op.To = move, fmt.Sprintf("group-%d", c.r.IntN(3))
		status, text, err = c.do(ctx, "PUT", path, fmt.Sprintf(`{"resource_group":%q}`, op.To))
	case n < 8:
		op.Kind, op.To = set, fmt.Sprint(c.r.IntN(1000))
		status, text, err = c.do(ctx, "PUT", path, fmt.Sprintf(`{"override_props":{"Aux/value":%q}}`, op.To))
	case n < 11:
		op.Kind = look
		status, text, err = c.do(ctx, "GET", path, "")
		var d definition
		if err == nil && status == http.StatusOK {
			if err = json.Unmarshal(text, &d); err == nil {
				op.Seen = d.state()
			}
		}
	default:
		c.list(ctx, began)
		return
	}
	if errors.Is(err, errNotSent) {
		return
	}
	op.Known = err == nil
	if op.Known {
		op.Found = status < 300 && !bytes.Contains(text, []byte(`"message":"resource definition `+name+` does not exist`)) && !missing(text)
		if status >= 500 && op.Kind != spawn {
			op.Known = false
		}
		if op.Kind == spawn && bytes.Contains(text, []byte("is not known")) {
			op.Known = false
		} else if op.Kind == spawn && status >= 300 && !bytes.Contains(text, []byte("exist")) {
			op.Known = false
			c.h.mu.Lock()
			c.h.strange = append(c.h.strange, fmt.Sprintf("spawn %s: %d %s", name, status, text))
			c.h.mu.Unlock()
		}
	}
	c.h.add(c.id, began, op)
}

// missing reports whether a deletion found nothing: the API then succeeds with a warning.
func missing(text []byte) bool { return bytes.Contains(text, []byte("does not exist")) }

// list notes what a list shows of each definition.
func (c *client) list(ctx context.Context, began int64) {
	status, text, err := c.do(ctx, "GET", "/v1/resource-definitions", "")
	var all []definition
	if err == nil && status == http.StatusOK {
		err = json.Unmarshal(text, &all)
	}
	if err != nil || status != http.StatusOK {
		return
	}
	seen := map[string]state{}
	for _, d := range all {
		seen[d.Name] = d.state()
	}
	for _, name := range c.names {
		c.h.add(c.id, began, call{Kind: look, Name: name, Known: true, Seen: seen[name]})
	}
}

// The judge is of use only when it finds what must not be.
func TestTheJudgeFindsWhatMustNotBe(t *testing.T) {
	there := state{Exists: true, Group: "dflt"}
	at := func(from, to int64, c call) porcupine.Operation {
		c.Name = "vol"
		return porcupine.Operation{Input: c, Call: from, Return: to}
	}
	spawned := at(0, 1, call{Kind: spawn, Known: true, Found: true})
	for name, w := range map[string]struct {
		all   []porcupine.Operation
		right bool
	}{
		"a read of what was spawned": {[]porcupine.Operation{spawned, at(2, 3, call{Kind: look, Known: true, Seen: there})}, true},
		"a lost spawn":               {[]porcupine.Operation{spawned, at(2, 3, call{Kind: look, Known: true})}, false},
		"an old read": {[]porcupine.Operation{
			spawned, at(2, 3, call{Kind: set, To: "1", Known: true, Found: true}), at(4, 5, call{Kind: look, Known: true, Seen: there}),
		}, false},
		"a spawn of what is there": {[]porcupine.Operation{spawned, at(2, 3, call{Kind: spawn, Known: true, Found: true})}, false},
		"a deletion that came back": {[]porcupine.Operation{
			spawned, at(2, 3, call{Kind: remove, Known: true, Found: true}), at(4, 5, call{Kind: look, Known: true, Seen: there}),
		}, false},
		"an unknown deletion, seen or not": {[]porcupine.Operation{
			spawned, at(2, math.MaxInt64, call{Kind: remove}), at(4, 5, call{Kind: look, Known: true, Seen: there}), at(6, 7, call{Kind: look, Known: true}),
		}, true},
		"an unknown deletion that is taken back": {[]porcupine.Operation{
			spawned, at(2, math.MaxInt64, call{Kind: remove}), at(4, 5, call{Kind: look, Known: true}), at(6, 7, call{Kind: look, Known: true, Seen: there}),
		}, false},
	} {
		if right := porcupine.CheckOperations(model(), w.all); right != w.right {
			t.Errorf("%s: the judge says %v", name, right)
		}
	}
}
