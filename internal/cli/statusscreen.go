// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"

	"github.com/holdfast-storage/holdfast/client"
)

// mostShown is how many lines of one kind the screen has.
const mostShown = 10

// screen draws the overview.
func (a *app) screen(o *overview, s style) string {
	var b strings.Builder
	a.controllerLines(&b, o, s)
	o.nodeLines(&b, s)
	o.poolLines(&b, s)
	var states []string
	volumes := 0
	for _, v := range o.Volumes {
		volumes += v.Count
		states = append(states, s.paint(v.color, fmt.Sprintf("%d %s", v.Count, printable(v.State))))
	}
	line(&b, "Volumes", counted(volumes, states))
	line(&b, "Deletions", fmt.Sprintf("%d not ended", o.Deletes))
	line(&b, "Jobs", fmt.Sprintf("%d running", o.Jobs))
	a.failingLines(&b, o, s)
	b.WriteByte('\n')
	if o.Well {
		b.WriteString(s.paint(green, "Everything is well.") + "\n")
	} else {
		b.WriteString(s.paint(red, "Not everything is well.") + "\n")
	}
	return b.String()
}

// line writes a line of the screen. One without a title goes on with what is above it.
func line(b *strings.Builder, title, text string) {
	b.WriteString(strings.TrimRight(fmt.Sprintf("%-13s %s", title, text), " ") + "\n")
}

// counted says how many there are, and of what.
func counted(count int, kinds []string) string {
	if len(kinds) == 0 {
		return fmt.Sprint(count)
	}
	return fmt.Sprintf("%d: %s", count, strings.Join(kinds, ", "))
}

func (a *app) controllerLines(b *strings.Builder, o *overview, s style) {
	title := "Controllers"
	for _, c := range o.Controllers {
		if c.Problem == "" {
			line(b, title, printable(c.Address)+"  "+s.paint(green, "answers")+", version "+printable(c.Version))
		} else {
			line(b, title, printable(c.Address)+"  "+s.paint(red, c.Problem))
		}
		title = ""
	}
}

func (o *overview) nodeLines(b *strings.Builder, s style) {
	by, colors := map[string]int{}, map[string]color{}
	for _, n := range o.Nodes {
		state, _, _ := strings.Cut(n.State, " (")
		by[state]++
		colors[state] = n.color
	}
	var states []string
	for _, state := range sortedKeys(by) {
		states = append(states, s.paint(colors[state], fmt.Sprintf("%d %s", by[state], printable(state))))
	}
	line(b, "Nodes", counted(len(o.Nodes), states))
	shown := 0
	for _, n := range o.Nodes {
		if n.Problem && shown < mostShown {
			shown++
			line(b, "", printable(n.Name)+"  "+s.paint(n.color, printable(n.State)))
		}
	}
}

func (o *overview) poolLines(b *strings.Builder, s style) {
	title := "Pools"
	if len(o.Pools) == 0 {
		line(b, title, "0")
	}
	for _, p := range o.Pools {
		text := fmt.Sprintf("%s  on %d nodes, %s of %s free", printable(p.Name), p.Nodes, size(p.Free, s), size(p.Total, s))
		if p.Nodes == 1 {
			text = fmt.Sprintf("%s  on %s, %s of %s free", printable(p.Name), printable(p.Fullest), size(p.Free, s), size(p.Total, s))
		}
		switch {
		case p.Total == 0:
			text = fmt.Sprintf("%s  on %d nodes", printable(p.Name), p.Nodes)
		case p.Nodes > 1:
			text += fmt.Sprintf("; the fullest is that of %s", printable(p.Fullest))
		}
		if p.Used >= fullMark {
			text += ", " + s.paint(red, fmt.Sprintf("%d%% used", p.Used))
		} else if p.Total > 0 {
			text += fmt.Sprintf(", %d%% used", p.Used)
		}
		if p.Unknown > 0 {
			text += ", " + s.paint(yellow, fmt.Sprintf("the space of %d is not known", p.Unknown))
		}
		line(b, title, text)
		title = ""
	}
}

func size(of client.SizeKiB, s style) string {
	if s.bytes {
		return exactSize(of)
	}
	return formatSize(of)
}

// failingLines draws what fails as a table.
func (a *app) failingLines(b *strings.Builder, o *overview, s style) {
	if len(o.Failing) == 0 {
		return
	}
	t := newTable("Failing", "Node", "Why", "Since", ">Tries", "NextTry")
	for _, f := range o.Failing[:min(len(o.Failing), mostShown)] {
		tries := ""
		if f.Tries > 0 {
			tries = fmt.Sprint(f.Tries)
		}
		t.row(f.What, f.Node, cell{f.Reason, red}, a.when(f.Since), tries, a.when(f.NextTry))
	}
	s.names = false
	b.WriteByte('\n')
	b.WriteString(t.draw(s))
	if more := len(o.Failing) - mostShown; more > 0 {
		fmt.Fprintf(b, "and %d more\n", more)
	}
}
