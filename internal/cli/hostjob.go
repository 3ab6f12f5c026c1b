// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// hostJobs is the commands that have a host work on its volumes.
func (a *app) hostJobs() []*cobra.Command {
	return []*cobra.Command{a.jobCopy(), a.jobDownload(), a.jobExport(), a.jobImport(), a.jobCancel(), a.jobWait()}
}

const volumeHelp = "A volume is RESOURCE or RESOURCE/NUMBER, a snapshot of it RESOURCE@SNAPSHOT, a file POOL:PATH with a path in the\nfolder of the pool."

// parseVolume reads RESOURCE[/NUMBER][@SNAPSHOT].
func parseVolume(word string) (*client.JobEnd, error) {
	rest, snapshot, snapshotted := strings.Cut(word, "@")
	name, number, numbered := strings.Cut(rest, "/")
	end := &client.JobEnd{ResourceName: name, SnapshotName: snapshot}
	if numbered {
		n, err := strconv.ParseInt(number, 10, 32)
		if err != nil || n < 0 {
			return nil, usagef("volume %q: %q is not the number of a volume", word, number)
		}
		end.VolumeNumber = int32(n)
	}
	if name == "" || snapshotted && snapshot == "" {
		return nil, usagef("volume %q: want RESOURCE, RESOURCE/NUMBER or RESOURCE@SNAPSHOT", word)
	}
	return end, nil
}

// parseFile reads POOL:PATH.
func parseFile(word string) (*client.JobEnd, error) {
	pool, path, ok := strings.Cut(word, ":")
	if !ok || pool == "" || path == "" {
		return nil, usagef("file %q: want POOL:PATH, such as images:debian.qcow2", word)
	}
	return &client.JobEnd{StoragePool: pool, Path: path}, nil
}

// newJob is a command that begins a job. Read makes the job of the arguments after the node.
func (a *app) newJob(use, short string, format, checksum bool, args []string, read func(args []string, j *client.HostJobCreate) error) *cobra.Command {
	var j client.HostJobCreate
	var w waiting
	kind, _, _ := strings.Cut(use, " ")
	cmd := &cobra.Command{
		Use: use, Short: short, Long: short + ".\n\n" + volumeHelp + "\n\n" + waitHelp, Args: exactly(args...),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			j := j
			j.Kind = kind
			if err := read(args[1:], &j); err != nil {
				return err
			}
			entries, err := s.StartHostJob(ctx, args[0], j)
			return s.begunOn(ctx, &w, args[0], entries, err)
		}),
	}
	cmd.Flags().StringVar(&j.ID, "id", "", "id of the job; beginning it again joins it (default: a new one)")
	if format {
		cmd.Flags().StringVarP(&j.Format, "format", "f", "", "format of the image, raw or qcow2; it is never guessed (default raw)")
	}
	if checksum {
		cmd.Flags().StringVarP(&j.Checksum, "checksum", "c", "", "what the image must have: sha256:HEX, sha512:HEX or md5:HEX")
	}
	w.addTo(cmd)
	return cmd
}

func (a *app) jobCopy() *cobra.Command {
	return a.newJob("copy NODE FROM TO", "Copy a volume or snapshot of a host into another volume of it", false, false, []string{"NODE", "FROM", "TO"},
		func(args []string, j *client.HostJobCreate) (err error) {
			if j.From, err = parseVolume(args[0]); err == nil {
				j.To, err = parseVolume(args[1])
			}
			return err
		})
}

func (a *app) jobDownload() *cobra.Command {
	return a.newJob("download NODE URL TO", "Download an image into a volume by HTTP or HTTPS", true, true, []string{"NODE", "URL", "TO"},
		func(args []string, j *client.HostJobCreate) (err error) {
			j.URL = args[0]
			j.To, err = parseVolume(args[1])
			return err
		})
}

func (a *app) jobExport() *cobra.Command {
	return a.newJob("export NODE FROM POOL:PATH", "Export a volume or snapshot into a new file of a pool", true, false, []string{"NODE", "FROM", "POOL:PATH"},
		func(args []string, j *client.HostJobCreate) (err error) {
			if j.From, err = parseVolume(args[0]); err == nil {
				j.To, err = parseFile(args[1])
			}
			return err
		})
}

func (a *app) jobImport() *cobra.Command {
	return a.newJob("import NODE POOL:PATH TO", "Import a file of a pool into a volume", true, true, []string{"NODE", "POOL:PATH", "TO"},
		func(args []string, j *client.HostJobCreate) (err error) {
			if j.From, err = parseFile(args[0]); err == nil {
				j.To, err = parseVolume(args[1])
			}
			return err
		})
}

func (a *app) jobCancel() *cobra.Command {
	return &cobra.Command{
		Use: "cancel NODE JOB", Short: "Cancel a job of a host, of which nothing is left then, or forget one that has ended", Args: exactly("NODE", "JOB"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			return s.changed(s.EndHostJob(ctx, args[0], args[1]))
		}),
	}
}

func (a *app) jobWait() *cobra.Command {
	return &cobra.Command{
		Use: "wait NODE JOB", Short: "Wait for the end of a job of a host, and show how far it is", Args: exactly("NODE", "JOB"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			return s.followHostJob(ctx, args[0], args[1])
		}),
	}
}

// begunOn is begun for a job of a host.
func (s *session) begunOn(ctx context.Context, w *waiting, node string, entries client.RcList, err error) error {
	if w.wait && w.async {
		return usagef("--wait and --async exclude each other")
	}
	if err := s.changed(entries, err); err != nil || s.failed {
		return err
	}
	id := jobOf(entries)
	if id == "" || w.async || !w.wait && (!s.app.env.Asks || s.form != text) {
		return nil
	}
	return s.followHostJob(ctx, node, id)
}

// followHostJob shows a job of a host until it ends, and returns nil when it was done.
func (s *session) followHostJob(ctx context.Context, node, id string) error {
	p := s.progress()
	defer p.end()
	tick := time.NewTicker(s.app.env.Poll)
	defer tick.Stop()
	again := "holdfast job wait " + node + " " + id
	for known := false; ; {
		job, err := s.HostJob(ctx, node, id)
		switch {
		case err == nil:
			known = true
		case known || !noJob(err): // At first the host may not have told of it yet.
			return interruption(err, again)
		}
		switch job.State {
		case "done":
			p.end()
			if s.form != text {
				return s.writeJSON(s.last)
			}
			return s.write(fmt.Sprintf("%s %s done: %s\n", job.Kind, job.ID, job.Result))
		case "failed", "cancelled":
			p.end()
			return exitError{ExitAPI, saying{what: fmt.Sprintf("%s %s on node %s has %s", job.Kind, job.ID, node, ended(job.State)), why: job.Problem}}
		}
		if known {
			p.show([]part{hostJobPart(job)})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return interruption(ctx.Err(), again)
		}
	}
}

// noJob tells whether a job is not there.
func noJob(err error) bool {
	refused, ok := errors.AsType[*client.Error](err)
	return ok && refused.Status == http.StatusNotFound
}

func ended(state string) string {
	if state == "cancelled" {
		return "been cancelled"
	}
	return state
}

// hostJobPart returns a job as a line of a progress.
func hostJobPart(j client.HostJob) part {
	x := part{name: j.Kind + " " + jobEnds(j), done: j.DoneBytes, total: j.TotalBytes, sizes: true}
	if j.Problem != "" {
		x.note, x.color = j.Problem, yellow
	}
	return x
}

// jobEnds says from where to where a job works.
func jobEnds(j client.HostJob) string {
	from := j.URL
	if j.From != nil {
		from = endText(j.From)
	}
	return from + " to " + endText(j.To)
}

func endText(e *client.JobEnd) string {
	switch {
	case e == nil:
		return ""
	case e.Path != "":
		return e.StoragePool + ":" + e.Path
	}
	name := fmt.Sprintf("%s/%d", e.ResourceName, e.VolumeNumber)
	if e.SnapshotName != "" {
		name += "@" + e.SnapshotName
	}
	return name
}

// allHostJobs returns the jobs of some nodes, or of all that there are.
func (s *session) allHostJobs(ctx context.Context, nodes, states []string) ([]client.HostJob, error) {
	if len(nodes) == 0 {
		all, err := s.Nodes(ctx, client.NodeFilter{})
		if err != nil {
			return nil, err
		}
		nodes = namesIn(all, func(n client.Node) string { return n.Name })
	}
	jobs := []client.HostJob{}
	for _, n := range nodes {
		some, err := s.HostJobs(ctx, n, client.JobFilter{States: states})
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, some...)
	}
	slices.SortStableFunc(jobs, func(a, b client.HostJob) int { return int(a.CreateTimestamp - b.CreateTimestamp) })
	return jobs, nil
}

func (a *app) hostJobTable(jobs []client.HostJob) *table {
	t := newTable("Node", "Job", "Kind", "What", "State", ">Done", "Begun", "Ended", "Problem")
	for _, j := range jobs {
		t.row(j.NodeName, j.ID, j.Kind, jobEnds(j), hostJobState(j), percent(j), a.when(&j.CreateTimestamp), a.when(j.EndTimestamp), j.Problem)
	}
	return t
}

func percent(j client.HostJob) string {
	if j.TotalBytes == 0 {
		return formatSize(client.RoundDown(j.DoneBytes))
	}
	return fmt.Sprintf("%d%%", j.DoneBytes*100/j.TotalBytes)
}

func hostJobState(j client.HostJob) cell {
	switch {
	case j.State == "done":
		return cell{j.State, green}
	case j.State == "failed":
		return cell{j.State, red}
	case !j.Current, j.Problem != "":
		return cell{j.State, yellow}
	default:
		return cell{text: j.State}
	}
}

// listHostJobs prints the jobs of some hosts.
func (s *session) listHostJobs(ctx context.Context, nodes, states []string) error {
	jobs, err := s.allHostJobs(ctx, nodes, states)
	if err != nil {
		return err
	}
	if s.form == text {
		return s.writeTable(s.app.hostJobTable(jobs))
	}
	body, err := wire.Encode(jobs)
	if err != nil {
		return err
	}
	return s.listJSON(body)
}

// showFound prints a job of a host, if there is one.
func (s *session) showFound(j client.HostJob, found bool) error {
	if !found {
		return nil
	}
	return s.showHostJob(j)
}

// showHostJob prints one job of a host.
func (s *session) showHostJob(j client.HostJob) error {
	if s.form != text {
		return s.writeJSON(s.last)
	}
	a := s.app
	t := newTable("Key", "Value")
	for _, row := range [][2]string{
		{"Job", j.ID},
		{"Node", j.NodeName},
		{"Kind", j.Kind},
		{"What", jobEnds(j)},
		{"Format", j.Format},
		{"State", j.State},
		{"Done", fmt.Sprintf("%d of %d bytes", j.DoneBytes, j.TotalBytes)},
		{"Must have", j.Checksum},
		{"Result", j.Result},
		{"Problem", j.Problem},
		{"Begun", a.when(&j.CreateTimestamp)},
		{"Ended", a.when(j.EndTimestamp)},
	} {
		if row[1] != "" {
			t.row(row[0], row[1])
		}
	}
	return s.writeTable(t)
}

// hostJobNamed returns the job of an id on whichever node has it.
func (s *session) hostJobNamed(ctx context.Context, node, id string) (client.HostJob, bool, error) {
	if node != "" {
		j, err := s.HostJob(ctx, node, id)
		return j, err == nil, err
	}
	all, err := s.allHostJobs(ctx, nil, nil)
	if err != nil {
		return client.HostJob{}, false, err
	}
	for _, j := range all {
		if j.ID == id {
			j, err := s.HostJob(ctx, j.NodeName, id) // So that its JSON is the last answer.
			return j, err == nil, err
		}
	}
	return client.HostJob{}, false, nil
}
