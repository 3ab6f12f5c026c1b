// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// overview is the answer to "is everything well". Its JSON is what holdfast status -o json prints.
type overview struct {
	Well        bool             `json:"well"`
	Controllers []controllerSeen `json:"controllers"`
	Nodes       []nodeSeen       `json:"nodes"`
	Pools       []poolSeen       `json:"storage_pools"` // one for each name
	Volumes     []stateSeen      `json:"volumes"`
	Deletes     int              `json:"pending_deletes"`
	Jobs        int              `json:"running_jobs"`
	Failing     []failing        `json:"failing"` // the oldest first
}

type controllerSeen struct {
	Address string `json:"address"`
	Version string `json:"version,omitempty"`
	Problem string `json:"problem,omitempty"`
}

type nodeSeen struct {
	Name    string `json:"name"`
	State   string `json:"state"`
	Problem bool   `json:"problem,omitempty"`

	color color
}

// poolSeen is all pools of one name that hold data. Sizes are those that their hosts last said.
type poolSeen struct {
	Name    string         `json:"name"`
	Nodes   int            `json:"nodes"`
	Free    client.SizeKiB `json:"free_kib"`
	Total   client.SizeKiB `json:"total_kib"`
	Fullest string         `json:"fullest_node,omitempty"`
	Used    int            `json:"fullest_used_percent"`
	Unknown int            `json:"nodes_without_known_space,omitempty"`
}

type stateSeen struct {
	State string `json:"state"`
	Count int    `json:"count"`

	color color
}

// failing is something that does not succeed, and that is tried again.
type failing struct {
	What    string `json:"what"`
	Node    string `json:"node_name,omitempty"`
	Reason  string `json:"reason"`
	Tries   int    `json:"tries,omitempty"`
	Since   *int64 `json:"since,omitempty"`    // milliseconds since the epoch, as the next
	NextTry *int64 `json:"next_try,omitempty"` // nil: when something changes
}

// fullMark is from how many percent on a pool is called full.
const fullMark = 90

func (a *app) status() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use: "status", Short: "Show in one screen whether everything is well", Args: nothing,
		Long: "Show in one screen whether everything is well: controllers, nodes, the space of pools, volumes by state, deletions that have not\n" +
			"ended, and what fails, the oldest first, with the reason and the time of the next try.",
		RunE: a.run(func(ctx context.Context, s *session, _ []string) error {
			o, err := a.look(ctx, s)
			if err != nil {
				return err
			}
			if check && !o.Well {
				err = WithExit(ExitUnknown, nil)
			}
			if s.form != text {
				body, encoding := wire.Encode(o)
				return cmp.Or(encoding, s.writeJSON(body), err)
			}
			return cmp.Or(s.write(a.screen(o, s.app.style(s.pastable))), err)
		}),
	}
	pastable(cmd)
	cmd.Flags().BoolVar(&check, "check", false, "exit with 1 when something is not well, for monitoring")
	return cmd
}

// look asks for all that the overview has.
func (a *app) look(ctx context.Context, s *session) (*overview, error) {
	o := &overview{Failing: []failing{}}
	var err error
	if o.Controllers, err = a.lookAtControllers(ctx); err != nil {
		return nil, err
	}
	nodes, err := s.Nodes(ctx, client.NodeFilter{})
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		state := a.nodeState(n)
		o.Nodes = append(o.Nodes, nodeSeen{n.Name, state.text, state.color != green, state.color})
	}
	pools, err := s.StoragePools(ctx, client.StoragePoolFilter{})
	if err != nil {
		return nil, err
	}
	o.addPools(pools)
	replicas, err := s.AllResources(ctx, client.ResourceFilter{})
	if err != nil {
		return nil, err
	}
	o.addVolumes(replicas)
	if err := o.addWork(ctx, s); err != nil {
		return nil, err
	}
	o.judge()
	return o, nil
}

// lookAtControllers asks all controllers at once, each alone.
func (a *app) lookAtControllers(ctx context.Context) ([]controllerSeen, error) {
	const patience = 3 * time.Second
	addresses := a.addresses()
	seen := make([]controllerSeen, len(addresses))
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var all sync.WaitGroup
	for i, address := range addresses {
		c, err := a.connectTo([]string{address}, nil)
		if err != nil {
			return nil, err
		}
		all.Go(func() {
			seen[i].Address = address
			v, err := c.ControllerVersion(ctx)
			if err != nil {
				said := a.said(err)
				seen[i].Problem = oneLine(cmp.Or(said.why, said.what))
				return
			}
			seen[i].Version = v.Version
		})
	}
	all.Wait()
	return seen, nil
}

// addPools adds up the pools of each name, and says what is wrong with one.
func (o *overview) addPools(pools []client.StoragePool) {
	by := map[string]*poolSeen{}
	for _, p := range pools {
		if first, failed := p.Reports.FirstError(); failed {
			o.Failing = append(o.Failing, failing{What: "storage pool " + p.StoragePoolName, Node: p.NodeName, Reason: reason(first)})
		}
		if p.ProviderKind == client.Diskless {
			continue
		}
		seen := by[p.StoragePoolName]
		if seen == nil {
			seen = &poolSeen{Name: p.StoragePoolName}
			by[p.StoragePoolName] = seen
		}
		seen.Nodes++
		if p.FreeCapacity == nil || p.TotalCapacity == nil || *p.TotalCapacity <= 0 {
			seen.Unknown++
			continue
		}
		seen.Free += *p.FreeCapacity
		seen.Total += *p.TotalCapacity
		if used := int((*p.TotalCapacity - *p.FreeCapacity) * 100 / *p.TotalCapacity); seen.Fullest == "" || used > seen.Used {
			seen.Fullest, seen.Used = p.NodeName, used
		}
	}
	for _, name := range sortedKeys(by) {
		o.Pools = append(o.Pools, *by[name])
	}
}

// addVolumes counts volumes by state, and says what fails on them.
func (o *overview) addVolumes(replicas []client.ResourceWithVolumes) {
	by := map[string]*stateSeen{}
	for _, r := range replicas {
		for _, v := range r.Volumes {
			state := volumeState(r.Resource, v)
			name, _, _ := strings.Cut(state.text, "(")
			if by[name] == nil {
				by[name] = &stateSeen{State: name, color: state.color}
			}
			by[name].Count++
			first, failed := v.Reports.FirstError()
			if i := slices.IndexFunc(v.Reports, func(rc client.Rc) bool { return rc.RetCode.Is(wire.WarnStorageError) }); !failed && i >= 0 {
				first, failed = v.Reports[i], true
			}
			if failed {
				o.Failing = append(o.Failing, failing{
					What: fmt.Sprintf("volume %d of %s", v.VolumeNumber, r.Name), Node: r.NodeName, Reason: reason(first), Since: r.CreateTimestamp,
				})
			}
		}
	}
	for _, name := range sortedKeys(by) {
		o.Volumes = append(o.Volumes, *by[name])
	}
	slices.SortStableFunc(o.Volumes, func(a, b stateSeen) int { return cmp.Compare(b.Count, a.Count) })
}

// addWork adds what goes on. A controller of LINSTOR has neither call.
func (o *overview) addWork(ctx context.Context, s *session) error {
	deletes, err := s.PendingDeletes(ctx)
	if err != nil && !foreign(err) {
		return err
	}
	o.Deletes = len(deletes)
	for _, d := range deletes {
		why := d.LastError
		if why == "" && !d.Connected {
			why = "the node is offline"
		}
		if why != "" {
			o.Failing = append(o.Failing, failing{
				What: "deletion of " + d.ResourceName, Node: d.NodeName, Reason: why, Tries: int(d.Attempts), NextTry: d.NextTryTimestamp,
			})
		}
	}
	jobs, err := s.Jobs(ctx, client.JobFilter{States: []string{"running"}})
	if err != nil && !foreign(err) {
		return err
	}
	o.Jobs = len(jobs)
	for _, j := range jobs {
		if len(j.Problems) > 0 {
			o.Failing = append(o.Failing, failing{
				What: j.Kind + " " + j.Object + " (job " + j.ID + ")", Reason: j.Problems[0], Tries: int(j.Attempts), Since: &j.CreateTimestamp,
				NextTry: j.NextTryTimestamp,
			})
		}
	}
	return nil
}

// foreign reports whether a controller does not know a call.
func foreign(err error) bool {
	return client.Is(err, wire.UnknownAPICall) || exitCode(err) == ExitConnection && strings.Contains(err.Error(), "status 404")
}

// reason returns what an entry says, with the cause.
func reason(rc client.Rc) string { return oneLine(rc.Message + "\n" + rc.Cause) }

// judge says whether all is well, and brings what fails into order.
func (o *overview) judge() {
	slices.SortStableFunc(o.Failing, func(a, b failing) int {
		switch {
		case a.Since == nil || b.Since == nil:
			return cmp.Compare(known(b.Since), known(a.Since))
		default:
			return cmp.Compare(*a.Since, *b.Since)
		}
	})
	o.Well = len(o.Failing) == 0 &&
		!slices.ContainsFunc(o.Controllers, func(c controllerSeen) bool { return c.Problem != "" }) &&
		!slices.ContainsFunc(o.Nodes, func(n nodeSeen) bool { return n.Problem }) &&
		!slices.ContainsFunc(o.Pools, func(p poolSeen) bool { return p.Used >= fullMark || p.Unknown > 0 }) &&
		!slices.ContainsFunc(o.Volumes, func(v stateSeen) bool { return v.color != green })
}

func known(at *int64) int {
	if at == nil {
		return 0
	}
	return 1
}
