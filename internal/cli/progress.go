// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
)

// part is one line of a progress: a node, a volume, or the whole work.
type part struct {
	name  string
	done  int64
	total int64 // zero: not known
	sizes bool  // done and total are bytes
	note  string
	color color
}

// progress shows how far work is, on the standard error: bars that are drawn again in place on a terminal, and elsewhere a
// line whenever a part has come a tenth further or has something else to say. With JSON or YAML it shows nothing.
type progress struct {
	out      io.Writer
	style    style
	terminal bool
	quiet    bool
	drawn    int // lines on the terminal that are ours
	said     map[string]string
}

func (s *session) progress() *progress {
	return &progress{
		out: s.app.env.Stderr, style: s.app.style(s.pastable), terminal: s.app.env.Asks, quiet: s.form != text || s.app.linstor,
		said: map[string]string{},
	}
}

// show shows where the parts are now.
func (p *progress) show(parts []part) {
	if p.quiet || len(parts) == 0 {
		return
	}
	var b strings.Builder
	if p.terminal {
		p.forget(&b)
		names := 0
		for _, x := range parts {
			names = max(names, width(x.name))
		}
		for _, x := range parts {
			b.WriteString(x.bar(p.style, names) + "\n")
		}
		p.drawn = len(parts)
	} else {
		for _, x := range parts {
			if step := x.step(); p.said[x.name] != step {
				p.said[x.name] = step
				b.WriteString(x.bar(style{}, 0) + "\n")
			}
		}
	}
	_, _ = io.WriteString(p.out, b.String())
}

// end takes the bars away from a terminal: what the command prints next stands in their place.
func (p *progress) end() {
	var b strings.Builder
	p.forget(&b)
	_, _ = io.WriteString(p.out, b.String())
}

// forget moves to where the bars begin, and clears them.
func (p *progress) forget(b *strings.Builder) {
	if p.drawn > 0 {
		fmt.Fprintf(b, "\x1b[%dA\x1b[J", p.drawn)
		p.drawn = 0
	}
}

// step changes when there is something new to say without a terminal.
func (x part) step() string {
	if x.total <= 0 {
		return x.note
	}
	return fmt.Sprintf("%d %s", x.done*10/x.total, x.note)
}

// bar returns a part as a line.
func (x part) bar(s style, names int) string {
	const cells = 24
	line := printable(x.name)
	if pad := names - width(line); pad > 0 {
		line += strings.Repeat(" ", pad)
	}
	if x.total > 0 {
		done := min(max(x.done, 0), x.total)
		full := int(done * cells / x.total)
		filled, empty := "#", "."
		if s.drawn {
			filled, empty = "█", "░"
		}
		if names > 0 {
			line += "  " + s.paint(green, strings.Repeat(filled, full)) + strings.Repeat(empty, cells-full)
		}
		line += fmt.Sprintf("  %3d%%", done*100/x.total)
		if x.sizes {
			line += fmt.Sprintf("  %s of %s", formatSize(client.RoundDown(done)), formatSize(client.RoundUp(x.total)))
		} else {
			line += fmt.Sprintf("  %d of %d", done, x.total)
		}
	}
	if x.note != "" {
		line += "  " + s.paint(x.color, oneLine(x.note))
	}
	return line
}

// during makes a call that may take long, and shows meanwhile where look says that the work is. Nothing is shown of a call
// that ends soon. Again is the command that shows the work after an interruption, where the work outlives that; otherwise "".
func during[T any](ctx context.Context, s *session, again string, look func(context.Context, *client.Client) ([]part, error), call func(context.Context) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	ended := make(chan result, 1)
	go func() {
		value, err := call(ctx)
		ended <- result{value, err}
	}()
	eyes, err := s.app.connect(nil)
	p := s.progress()
	if err != nil || p.quiet {
		r := <-ended
		return r.value, interruption(r.err, again)
	}
	defer p.end()
	tick := time.NewTicker(s.app.env.Poll)
	defer tick.Stop()
	for {
		select {
		case r := <-ended:
			return r.value, interruption(r.err, again)
		case <-tick.C:
			// What cannot be looked at now is looked at again: the call itself says what is wrong.
			if parts, err := look(ctx, eyes); err == nil {
				p.show(parts)
			}
		}
	}
}

// resizing looks at each replica of a volume that is to get a size.
func resizing(resource string, number int32, size client.SizeKiB) func(context.Context, *client.Client) ([]part, error) {
	return func(ctx context.Context, c *client.Client) ([]part, error) {
		all, err := c.AllResources(ctx, client.ResourceFilter{Resources: []string{resource}})
		var parts []part
		for _, r := range all {
			for _, v := range r.Volumes {
				has := usable(v)
				if v.VolumeNumber != number || has == nil {
					continue
				}
				x := part{name: r.NodeName, note: "has " + formatSize(*has), color: yellow}
				if *has >= size {
					x.color = green
				}
				if first, failed := v.Reports.FirstError(); failed {
					x.note, x.color = first.Message, red
				}
				parts = append(parts, x)
			}
		}
		return parts, err
	}
}

// filling looks at the replicas of a definition that are being filled.
func filling(resource string) func(context.Context, *client.Client) ([]part, error) {
	return func(ctx context.Context, c *client.Client) ([]part, error) {
		all, err := c.AllResources(ctx, client.ResourceFilter{Resources: []string{resource}})
		var parts []part
		for _, r := range all {
			state := resourceState(r)
			parts = append(parts, part{name: r.NodeName, note: state.text, color: state.color})
		}
		return parts, err
	}
}

// interruption says of work that was left to itself how to see it again. Other errors stay as they are.
func interruption(err error, again string) error {
	if err == nil || again == "" || !errors.Is(err, context.Canceled) {
		return err
	}
	return exitError{ExitUnknown, fmt.Errorf("interrupted here; the work goes on: see %s", again)}
}

const waitHelp = "On a terminal the command shows how far the work is, and\nends with it, or earlier with --async; elsewhere it ends at once, unless with --wait. " +
	"The work goes on in any case: see job list."

// waiting is the flags of commands that begin a job.
type waiting struct{ wait, async bool }

func (w *waiting) addTo(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&w.wait, "wait", false, "end when the work has ended")
	cmd.Flags().BoolVar(&w.async, "async", false, "end at once; the work goes on")
}

// begun prints the answer of a change that began a stored job, and follows the job where the flags and the terminal say so.
// Pass the results of the call. The answer of LINSTOR's commands must come at once: as linstor only --wait waits.
func (s *session) begun(ctx context.Context, w *waiting, entries client.RcList, err error) error {
	return s.begunWork(w, entries, err, func() error { return s.followJob(ctx, jobOf(entries)) })
}

// begunWork is begun for work that is followed in another way.
func (s *session) begunWork(w *waiting, entries client.RcList, err error, follow func() error) error {
	if w.wait && w.async {
		return usagef("--wait and --async exclude each other")
	}
	if err := s.changed(entries, err); err != nil || s.failed {
		return err
	}
	if w.async || !w.wait && (!s.app.env.Asks || s.app.linstor || s.form != text) {
		return nil
	}
	return follow()
}

// until asks again and again until what it asks for has come, and returns nil. When ctx ends before that, it returns the error
// of ctx alone, also when that has cut a call off.
func (s *session) until(ctx context.Context, ask func() (bool, error)) error {
	tick := time.NewTicker(s.app.env.Poll)
	defer tick.Stop()
	for {
		switch come, err := ask(); {
		case ctx.Err() != nil && errors.Is(err, ctx.Err()):
			return ctx.Err()
		case come || err != nil:
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// runningJob returns the newest running job of a kind about an object, or "".
func (s *session) runningJob(ctx context.Context, kind, object string) (string, error) {
	all, err := s.Jobs(ctx, client.JobFilter{States: []string{"running"}})
	id := ""
	for _, j := range all { // The oldest is first.
		if j.Kind == kind && strings.EqualFold(j.Object, object) {
			id = j.ID
		}
	}
	return id, err
}

// jobOf returns the id of the job that an answer tells of, or "".
func jobOf(entries client.RcList) string {
	for _, e := range entries {
		for line := range strings.Lines(e.Details) {
			if id, ok := strings.CutPrefix(strings.TrimSpace(line), "Job: "); ok {
				return id
			}
		}
	}
	return ""
}

// followJob shows a stored job until it ends, and returns nil when it was done, or there is none. A job that is running when ctx
// ends goes on, and the error says how to see it again. This is how a command that begins a job waits for it:
//
//	entries, err := s.EvacuateNode(ctx, node, how)
//	return s.begun(ctx, &wait, entries, err)
//
// where wait is the flags that waiting.addTo has declared, and the answer has the job in its details ("Job: ID").
// A problem of a try is shown and is not the end: the controller tries again.
func (s *session) followJob(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	p := s.progress()
	defer p.end()
	again := "holdfast job show " + id
	return interruption(s.until(ctx, func() (bool, error) {
		job, err := s.Job(ctx, id)
		if err != nil {
			return false, err
		}
		switch job.State {
		case "done":
			p.end()
			return true, s.write(fmt.Sprintf("SUCCESS: %s of %s is done: %d of %d\n", printable(job.Kind), printable(job.Object), job.Done, job.Total))
		case "failed", "cancelled":
			why := strings.Join(job.Problems, "; ")
			return false, exitError{ExitAPI, saying{what: fmt.Sprintf("%s of %s has %s", job.Kind, job.Object, ended(job.State)), why: why, do: "see " + again}}
		}
		p.show([]part{jobPart(job)})
		return false, nil
	}), again)
}

// ended says how work has ended that was not done.
func ended(state string) string {
	if state == "cancelled" {
		return "been cancelled"
	}
	return state
}

// jobPart returns a job as a line of a progress.
func jobPart(j client.Job) part {
	x := part{name: j.Kind + " " + j.Object, done: int64(j.Done), total: int64(j.Total)}
	if len(j.Problems) > 0 {
		x.note, x.color = j.Problems[0], yellow
	}
	return x
}
