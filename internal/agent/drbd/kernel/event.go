// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Verb says what became of the object of an event.
type Verb string

// The verbs of events.
const (
	Exists   Verb = "exists" // It was there when the stream began.
	Create   Verb = "create"
	Change   Verb = "change"
	Destroy  Verb = "destroy"
	Rename   Verb = "rename"
	Call     Verb = "call" // A helper program begins.
	Response Verb = "response"
)

// The kinds of objects that events are about. DumpEnd with the verb Exists ends the state at the beginning.
const (
	ResourceKind   = "resource"
	DeviceKind     = "device"
	ConnectionKind = "connection"
	PeerDeviceKind = "peer-device"
	PathKind       = "path"
	HelperKind     = "helper"
	DumpEnd        = "-"
)

// Event is a line of events2. What it does not name has not changed.
type Event struct {
	Time   string // Lines of one state change have the same. Empty without --timestamps.
	Verb   Verb
	Kind   string
	Fields map[string]string
}

// ParseEvent reads a line of "drbdsetup events2".
func ParseEvent(line string) (Event, error) {
	words := strings.Fields(line)
	var e Event
	if len(words) > 0 && words[0] != "" && words[0][0] >= '0' && words[0][0] <= '9' {
		e.Time, words = words[0], words[1:]
	}
	if len(words) < 2 {
		return Event{}, fmt.Errorf("drbdsetup's events: %q is no event", line)
	}
	e.Verb, e.Kind = Verb(words[0]), words[1]
	switch e.Verb {
	case Exists, Create, Change, Destroy, Rename, Call, Response:
	default:
		return Event{}, fmt.Errorf("drbdsetup's events: %q begins with no verb that is known", line)
	}
	e.Fields = make(map[string]string, len(words)-2)
	for _, w := range words[2:] {
		key, value, ok := strings.Cut(w, ":")
		if !ok || key == "" {
			return Event{}, fmt.Errorf("drbdsetup's events: %q has the field %q", line, w)
		}
		e.Fields[key] = value
	}
	if e.Kind != DumpEnd && e.Fields["name"] == "" {
		return Event{}, fmt.Errorf("drbdsetup's events: %q names no resource", line)
	}
	return e, nil
}

// number returns a field that is a number of at least zero.
func (e Event) number(key string) (int, error) {
	n, err := strconv.Atoi(e.Fields[key])
	if err != nil || n < 0 {
		return 0, fmt.Errorf("drbdsetup's events: %s:%s of %s %s is no number", key, e.Fields[key], e.Kind, e.Fields["name"])
	}
	return n, nil
}

// set gives a field to whoever wants it, when the event has it.
func (e Event) set(key string, to *string) {
	if v, ok := e.Fields[key]; ok {
		*to = v
	}
}

// flag is set for yes and no.
func (e Event) flag(key string, to *bool) {
	if v, ok := e.Fields[key]; ok {
		*to = v == "yes"
	}
}

// size is set for a number of KiB, in bytes. What is no such number is left out.
func (e Event) size(key string, to *int64) {
	if v, ok := e.Fields[key]; ok {
		if n, err := strconv.ParseInt(v, 10, 64); err == nil && n >= 0 && n <= math.MaxInt64/kib {
			*to = n * kib
		}
	}
}
