// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-storage/holdfast/internal/model"
)

// Conn is a connection to a controller. A *grpc.ClientConn is one.
type Conn interface {
	grpc.ClientConnInterface
	io.Closer
}

// Config is what an agent needs to know. Node, Dial and Host are required.
type Config struct {
	Node string // the name that the node is registered under

	// Addresses of the controllers, tried in turn. Without any, Dial is called with "".
	Addresses []string
	// Dial makes a connection with all its credentials. It is called for each attempt anew,
	// so that credentials renewed on disk are taken up.
	Dial func(address string) (Conn, error)

	Host     Host
	StateDir string // where the assigned set is kept; empty for nowhere

	// Abilities that not every agent has. Without one, asks for it are answered as unsupported.
	Jobs        Jobs
	Holds       Holds
	Devices     Devices
	Numbers     Numbers
	SetLogLevel func(level string) error // TRACE, DEBUG, INFO, WARN or ERROR

	Version string // of this program, for people
	Uname   string // the host's own name; asked of the kernel when empty

	// What the host can serve, and what it cannot, with the reason of each.
	Providers            []model.Provider
	Layers               []model.Layer
	UnsupportedProviders map[model.Provider]string
	UnsupportedLayers    map[model.Layer]string

	Log    *slog.Logger // nothing is logged when nil
	Limits Limits
}

// Limits are the agent's times and bounds. A zero field is its default.
type Limits struct {
	PerLane int // resources of one lane that are worked on at once; 4

	Repair  time.Duration // between two looks at a resource; 60 s, spread by a fifth
	Measure time.Duration // between two looks at a pool; 30 s, spread by a fifth

	RetryFirst time.Duration // after the first failure of a resource or pool; 1 s
	RetryMost  time.Duration // after many of them; 60 s

	Apply   time.Duration // for one application of an assignment; 30 min
	Inspect time.Duration // for looking at one resource or pool, and for answering an ask; 30 s
	Work    time.Duration // for answering an ask that makes the host work; 5 min
	Slow    time.Duration // an application that takes longer is reported as working; 1 s

	Progress time.Duration // between two looks at a resource that something goes on with; 1 s

	RedialFirst time.Duration // after the first session that failed; 200 ms
	RedialMost  time.Duration // after many of them; 5 s
	Call        time.Duration // for one call, and for the first message of a session; 10 s

	Stop    time.Duration // for running work to finish when the agent ends, and again once it is cancelled; 5 s
	Message int           // the largest message taken, in bytes; 64 MiB
	Batch   int           // the largest report sent, in bytes; 1 MiB
	Asks    int           // asks answered at once; 32
}

func (l Limits) withDefaults() Limits {
	return Limits{
		PerLane:     cmp.Or(l.PerLane, 4),
		Repair:      cmp.Or(l.Repair, time.Minute),
		Measure:     cmp.Or(l.Measure, 30*time.Second),
		RetryFirst:  cmp.Or(l.RetryFirst, time.Second),
		RetryMost:   cmp.Or(l.RetryMost, time.Minute),
		Apply:       cmp.Or(l.Apply, 30*time.Minute),
		Inspect:     cmp.Or(l.Inspect, 30*time.Second),
		Work:        cmp.Or(l.Work, 5*time.Minute),
		Slow:        cmp.Or(l.Slow, time.Second),
		Progress:    cmp.Or(l.Progress, time.Second),
		RedialFirst: cmp.Or(l.RedialFirst, 200*time.Millisecond),
		RedialMost:  cmp.Or(l.RedialMost, 5*time.Second),
		Call:        cmp.Or(l.Call, 10*time.Second),
		Stop:        cmp.Or(l.Stop, 5*time.Second),
		Message:     cmp.Or(l.Message, 64<<20),
		Batch:       cmp.Or(l.Batch, 1<<20),
		Asks:        cmp.Or(l.Asks, 32),
	}
}

func (c Config) withDefaults() (Config, error) {
	if _, err := model.ParseNodeName(c.Node); err != nil {
		return c, err
	}
	if c.Dial == nil || c.Host == nil {
		return c, errors.New("the agent needs a way to dial the controller and a host to work on")
	}
	if c.Uname == "" {
		name, err := os.Hostname()
		if err != nil {
			return c, fmt.Errorf("ask for the host's name: %w", err)
		}
		c.Uname = name
	}
	if len(c.Addresses) == 0 {
		c.Addresses = []string{""}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Limits = c.Limits.withDefaults()
	return c, nil
}
