// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

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

// newJob is a command that begins a job of the kind that is its name. Read makes the job of the arguments after the node.
func (a *app) newJob(use, short string, format, checksum bool, read func(args []string, j *client.HostJobCreate) error) *cobra.Command {
	var j client.HostJobCreate
	var w waiting
	words := strings.Fields(use)
	cmd := &cobra.Command{
		Use: use, Short: short, Long: short + ".\n\n" + volumeHelp + "\n\n" + waitHelp, Args: exactly(words[1:]...),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			j := j
			j.Kind = words[0]
			if err := read(args[1:], &j); err != nil {
				return err
			}
			entries, err := s.StartHostJob(ctx, args[0], j)
			return s.begunWork(&w, entries, err, func() error { return s.followHostJob(ctx, args[0], jobOf(entries)) })
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
	return a.newJob("copy NODE FROM TO", "Copy a volume or snapshot of a host into another volume of it", false, false,
		func(args []string, j *client.HostJobCreate) (err error) {
			if j.From, err = parseVolume(args[0]); err == nil {
				j.To, err = parseVolume(args[1])
			}
			return err
		})
}

func (a *app) jobDownload() *cobra.Command {
	return a.newJob("download NODE URL TO", "Download an image into a volume by HTTP or HTTPS", true, true,
		func(args []string, j *client.HostJobCreate) (err error) {
			j.URL = args[0]
			j.To, err = parseVolume(args[1])
			return err
		})
}

func (a *app) jobExport() *cobra.Command {
	return a.newJob("export NODE FROM POOL:PATH", "Export a volume or snapshot into a new file of a pool", true, false,
		func(args []string, j *client.HostJobCreate) (err error) {
			if j.From, err = parseVolume(args[0]); err == nil {
				j.To, err = parseFile(args[1])
			}
			return err
		})
}

func (a *app) jobImport() *cobra.Command {
	return a.newJob("import NODE POOL:PATH TO", "Import a file of a pool into a volume", true, true,
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

// followHostJob shows a job of a host until it ends, and returns nil when it was done, or there is none.
func (s *session) followHostJob(ctx context.Context, node, id string) error {
	if id == "" {
		return nil
	}
	p := s.progress()
	defer p.end()
	known := false
	return interruption(s.until(ctx, func() (bool, error) {
		job, err := s.HostJob(ctx, node, id)
		if !known && client.IsNotFound(err) { // The host may not have told of it yet.
			return false, nil
		}
		if err != nil {
			return false, err
		}
		known = true
		switch job.State {
		case "done":
			p.end()
			if s.form != text {
				return true, s.writeJSON(s.last)
			}
			return true, s.write(fmt.Sprintf("%s %s done: %s\n", job.Kind, job.ID, job.Result))
		case "failed", "cancelled":
			return false, exitError{ExitAPI, saying{what: fmt.Sprintf("%s %s on node %s has %s", job.Kind, job.ID, node, ended(job.State)), why: job.Problem}}
		}
		p.show([]part{hostJobPart(job)})
		return false, nil
	}), "holdfast job wait "+node+" "+id)
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
	all := len(nodes) == 0
	if all {
		known, err := s.Nodes(ctx, client.NodeFilter{})
		if err != nil {
			return nil, err
		}
		nodes = namesIn(known, func(n client.Node) string { return n.Name })
	}
	jobs := []client.HostJob{}
	for _, n := range nodes {
		some, err := s.HostJobs(ctx, n, client.JobFilter{States: states})
		if all && client.IsNotFound(err) { // It has gone since.
			continue
		}
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, some...)
	}
	slices.SortStableFunc(jobs, func(a, b client.HostJob) int { return cmp.Compare(a.CreateTimestamp, b.CreateTimestamp) })
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
func (s *session) hostJobNamed(ctx context.Context, id string) (job client.HostJob, found bool, err error) {
	all, err := s.allHostJobs(ctx, nil, nil)
	if err != nil {
		return client.HostJob{}, false, err
	}
	i := slices.IndexFunc(all, func(j client.HostJob) bool { return j.ID == id })
	if i < 0 {
		return client.HostJob{}, false, nil
	}
	job, err = s.HostJob(ctx, all[i].NodeName, id) // So that its JSON is the last answer.
	return job, err == nil, err
}
