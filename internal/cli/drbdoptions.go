// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-storage/holdfast/client"
	"github.com/holdfast-storage/holdfast/internal/props"
)

// drbdOptions is the command that sets options of DRBD by their own names: each stands for a property of the scope. Handlers have
// names of their own here, as in LINSTOR.
func (a *app) drbdOptions(scope props.Scope, o owner) *cobra.Command {
	name, alias := "drbd-options", "opt"
	if scope&(props.Resource|props.NodeConnection|props.ResourceConnection) != 0 {
		name, alias = "drbd-peer-options", "popt"
	}
	keys := map[string]string{} // by the name of the flag
	cmd := &cobra.Command{
		Use: strings.TrimSpace(name + " " + strings.Join(o.names, " ")), Aliases: []string{alias}, Short: "Set or unset options of DRBD",
		Long: "Set options of DRBD by their own names, or unset them with --unset-NAME. Each is the property that list-properties shows.",
		Args: exactly(o.names...),
	}
	for info := range props.All(scope) {
		flag := drbdFlag(info.Key)
		if flag == "" || info.Internal {
			continue
		}
		if strings.Contains(info.Key, "/Disk/") && hasProperty(scope, "DrbdOptions/PeerDevice/"+flag) {
			flag = "disk-" + flag // The plain name is that of the peer device, as in LINSTOR.
		}
		keys[flag] = info.Key
		cmd.Flags().String(flag, "", strings.TrimSuffix(info.Text, ".")+": "+info.Allowed())
		cmd.Flags().Bool("unset-"+flag, false, "")
		_ = cmd.Flags().MarkHidden("unset-" + flag) // It was declared in the line before.
	}
	cmd.RunE = a.run(func(ctx context.Context, s *session, args []string) error {
		modify, err := drbdChange(cmd.Flags(), keys)
		if err != nil {
			return err
		}
		return s.changed(o.write(ctx, s, args, modify))
	})
	return cmd
}

// hasProperty reports whether a property can be set at a scope.
func hasProperty(scope props.Scope, key string) bool {
	info, ok := props.Lookup(key)
	return ok && info.Scopes&scope != 0
}

// drbdFlag returns the name of the flag for a property of DRBD, or "". Some names are taken by global flags.
func drbdFlag(key string) string {
	parts := strings.Split(key, "/")
	if len(parts) != 3 || parts[0] != "DrbdOptions" || strings.ContainsAny(key, "<*") {
		return ""
	}
	switch parts[1] {
	case "Handlers":
		return "handler-" + parts[2]
	case "Disk", "Net", "Resource", "PeerDevice":
		if parts[2] == "timeout" {
			return "drbd-timeout"
		}
		return parts[2]
	default:
		return ""
	}
}

// drbdChange returns the change of properties that the flags ask for.
func drbdChange(flags *pflag.FlagSet, keys map[string]string) (client.PropsModify, error) {
	var modify client.PropsModify
	var twice string
	flags.Visit(func(f *pflag.Flag) {
		if key, ok := keys[f.Name]; ok {
			if modify.OverrideProps == nil {
				modify.OverrideProps = client.Properties{}
			}
			modify.OverrideProps[key] = f.Value.String()
			return
		}
		name, unset := strings.CutPrefix(f.Name, "unset-")
		key, ok := keys[name]
		if !unset || !ok || f.Value.String() != "true" {
			return
		}
		if flags.Changed(name) {
			twice = name
		}
		modify.DeleteProps = append(modify.DeleteProps, key)
	})
	switch {
	case twice != "":
		return modify, usagef("--%s and --unset-%s exclude each other", twice, twice)
	case len(modify.OverrideProps)+len(modify.DeleteProps) == 0:
		return modify, usagef("no option was given")
	}
	return modify, nil
}
