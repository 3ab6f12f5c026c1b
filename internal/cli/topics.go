// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// topic is a page of help about something to do.
type topic struct{ name, short, text string }

// topics are the things that people do on the first day, in the order in which they do them.
func topics() []topic {
	return []topic{
		{"first-volume", "Start Holdfast on one host, make a volume and mount it", `
As root, start a controller and an agent in one process, with a pool of files below /var/lib/holdfast:

  holdfast up

It says when it is up. In another shell, make a group, a template for volumes: one replica, with a filesystem.

  holdfast resource-group create fast --place-count 1
  holdfast resource-group set-property fast FileSystem/Type ext4

Make a volume of 1 GiB from it, and look at it:

  holdfast resource-group spawn-resources fast vol1 1G
  holdfast volume list

DeviceName is its device on the node. Mount that:

  mount /dev/loop0 /mnt

A volume in use cannot be deleted. Unmount it first:

  umount /mnt
  holdfast resource-definition delete vol1
`},
		{"hosts", "Add a host to the cluster", `
Run the controller on one host, reachable for the agents of the others:

  holdfast controller --listen 127.0.0.1:3370 --agent-listen 0.0.0.0:3366

Register the new host and make a token for it. The token is good once:

  holdfast node create host2 10.0.0.2 --communication-type ssl
  holdfast node join-token host2 >host2.token

On the new host, check what is there, and start the agent with the token:

  holdfast doctor
  holdfast agent --node host2 --controller 10.0.0.1:3366 --join-file host2.token

'holdfast node list' shows it Online. 'holdfast node info' shows what it can do, and with --full why not more.
`},
		{"pools", "Tell Holdfast where volumes shall lie", `
A storage pool is a place for volumes on one node. Pools of the same name on several nodes serve the same groups.

  holdfast storage-pool create filethin host1 slow /srv/volumes
  holdfast storage-pool create lvmthin host1 fast vg0/thin
  holdfast storage-pool create zfs host2 fast tank/holdfast

On disks that are not in use yet, the pool below can be made, too:

  holdfast physical-storage list
  holdfast physical-storage create-device-pool lvmthin host1 /dev/sdb --pool-name vg0 --storage-pool fast

'holdfast storage-pool list' shows their space, and what is wrong with one that is not well.
`},
		{"placement", "Say how many replicas there shall be, and where", `
A resource group says where the replicas of its volumes go:

  holdfast resource-group create db --place-count 2 --storage-pool fast --replicas-on-different zone

Properties of nodes are free below Aux/:

  holdfast node set-property host1 --aux zone a

See what the next volume would do, of each pool, and why not elsewhere. Nothing is changed:

  holdfast resource-group explain db 100G
  holdfast resource-group spawn-resources db vol2 100G --dry-run

'holdfast resource-group query-size-info db' shows how large a volume can be now.
`},
		{"resize", "Make a volume larger", `
A size is a number with a unit (G, GiB, M, MB, T and so on), or without one for GiB:

  holdfast volume-definition set-size vol1 0 20G

All replicas grow, while the volume is in use. The filesystem on it is grown where it is mounted, with its own tools:

  resize2fs /dev/loop0      or      xfs_growfs /mnt
`},
		{"snapshots", "Keep a volume as it is now, and get it back", `
  holdfast snapshot create vol1 before-upgrade
  holdfast snapshot list
  holdfast snapshot rollback vol1 before-upgrade

Rolling back needs the volume not to be in use. To look into a snapshot beside the volume, restore it into a new one:

  holdfast resource-definition create vol1-old
  holdfast snapshot volume-definition restore --from-resource vol1 --from-snapshot before-upgrade --to-resource vol1-old
  holdfast snapshot resource restore --from-resource vol1 --from-snapshot before-upgrade --to-resource vol1-old
`},
		{"maintenance", "Take a host out of service", `
See what would suffer, and where its volumes would go:

  holdfast advise maintenance host1
  holdfast node evacuate host1 --dry-run

Move everything away. On a terminal the command shows how far it is; Ctrl-C leaves it running:

  holdfast node evacuate host1
  holdfast job list

When the host is back, let it take volumes again. One that will never come back is given up:

  holdfast node restore host1
  holdfast node lost host1
`},
		{"trouble", "Find out what is wrong", `
  holdfast status                    all in one screen: nodes, pools, volumes, what fails and when it is tried again
  holdfast doctor                    on a host: which tools, modules and rights are there, and what that allows
  holdfast resource list --faulty    the replicas that are not well
  holdfast resource list-pending-deletes
  holdfast job list                  work that goes on, with its problems
  holdfast orphans list              volumes on hosts that the controller does not know
  holdfast error-reports list        faults of the software itself

Errors say what happened, why, and what to do. --verbose adds the details and the calls.
`},
		{"scripts", "Use the commands from programs", `
Forms of output, for every list:

  -o json, -o yaml      what the API says
  -m                    the same as the linstor client prints it
  -o name               only names, in the order in which commands take them:
                        holdfast resource list -r vol1 -o name | xargs -L1 holdfast resource delete
  -o wide, --bytes      more columns; exact sizes
  --watch 5             again each 5 seconds

Without a terminal nothing is asked, coloured or fitted to a width. Exit codes: 0 done, 2 wrong arguments, 3 not found, 10 refused
by the controller, 20 no controller, 21 no answer in time, 1 anything else.

Several controllers: --controllers a,b,c or LS_CONTROLLERS. TLS: https:// before the address, --cafile, --certfile, --keyfile. A
token: --token-file or HOLDFAST_TOKEN.

Completion with the names that there are: holdfast completion bash >/etc/bash_completion.d/holdfast (or zsh, fish).
`},
		{"linstor", "Coming from LINSTOR", `
The commands, their short forms, options, tables and exit codes are those of the linstor client: n l, sp c, rg spawn, r l, v l. Its
settings are read as well: LS_CONTROLLERS, LS_CLIENT_*, and /etc/linstor/linstor-client.conf.

Called by that name, the program answers in that client's form to the letter, asks nothing and shows no progress:

  ln -s /usr/bin/holdfast /usr/local/bin/linstor

The linstor client itself works against Holdfast, too. What differs is in docs/cli/differences.md.
`},
	}
}

// helpTopics returns the pages of help: commands that do nothing but can be asked about.
func helpTopics() []*cobra.Command {
	var index strings.Builder
	index.WriteString("The things that people do on the first day. Read one with 'holdfast help TOPIC':\n\n")
	var pages []*cobra.Command
	for _, t := range topics() {
		fmt.Fprintf(&index, "  %-14s %s\n", t.name, t.short)
		pages = append(pages, &cobra.Command{Use: t.name, Short: t.short, Long: t.short + "\n" + strings.TrimRight(t.text, "\n")})
	}
	return append(pages, &cobra.Command{Use: "topics", Short: "What people do on the first day: holdfast help topics", Long: strings.TrimRight(index.String(), "\n")})
}
