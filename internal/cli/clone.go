// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
)

func (a *app) cloneDefinition() *cobra.Command {
	var (
		noWait       bool
		wait         int
		externalName string
		layers       commas
		groupName    string
		passphrases  list
	)
	cmd := &cobra.Command{
		Use: "clone RESOURCE [CLONE]", Aliases: []string{"cl"}, Short: "Make a resource with the content that another has now", Args: between(1, 2, "RESOURCE", "CLONE"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			ask := client.CloneRequest{
				Name: append(args, "")[1], ExternalName: externalName, LayerList: upper[client.LayerType](layers), ResourceGroup: groupName,
			}
			for _, p := range passphrases {
				ask.VolumePassphrases = append(ask.VolumePassphrases, client.Secret(p))
			}
			switch {
			case externalName != "":
				ask.Name = ""
			case ask.Name == "":
				return usagef("too few arguments: CLONE is missing")
			}
			begun, err := s.Clone(ctx, args[0], ask)
			if err := s.changed(begun.Messages, err); err != nil || noWait {
				return err
			}
			if wait > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Duration(wait)*time.Second)
				defer cancel()
			}
			return s.awaitClone(ctx, args[0], begun.CloneName)
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&noWait, "no-wait", false, "end at once; the clone goes on")
	f.IntVar(&wait, "wait-timeout", 0, "end after this many seconds; the clone goes on")
	f.StringVarP(&externalName, "external-name", "e", "", "name of any form; the controller derives the clone's name from it")
	f.VarP(&layers, "layer-list", "l", "layers from top to bottom; those of the source without it")
	passphrases.addTo(f, "volume-passphrase", "", "passphrases of the clone's volumes")
	f.StringVar(&groupName, "resource-group", "", "resource group that the clone belongs to; that of the source without it")
	compatible(cmd, "use-zfs-clone", "")
	return cmd
}

// awaitClone waits until a clone has ended.
func (s *session) awaitClone(ctx context.Context, source, clone string) error {
	p := s.progress()
	defer p.end()
	var done, total client.SizeKiB
	err := s.until(ctx, func() (bool, error) {
		st, err := s.CloneStatus(ctx, source, clone)
		if err != nil {
			return false, err
		}
		switch st.Status {
		case client.CloneComplete:
			p.end()
			return true, s.write(fmt.Sprintf("Clone %s of %s is complete.\n", clone, source))
		case client.CloneFailed:
			return false, fmt.Errorf("clone %s of %s failed: %s", clone, source, st.Problem)
		}
		done, total = st.Done, st.Total
		p.show([]part{{name: "clone " + clone, done: int64(done) << 10, total: int64(total) << 10, sizes: true}})
		return false, nil
	})
	if ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("clone %s of %s is not complete yet, and goes on: %s of %s are there", clone, source, formatSize(done), formatSize(total))
	}
	return interruption(err, "holdfast resource-definition list -r "+clone)
}
