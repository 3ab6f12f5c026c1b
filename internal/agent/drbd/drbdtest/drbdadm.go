// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package drbdtest

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

func (n *Node) drbdadm(args []string) (string, string, int) {
	switch {
	case slices.Contains(args, "sh-nop"):
		if _, err := readFile(args[1]); err != nil {
			return "", err.Error() + "\n", 10
		}
		return "", "", 0
	case slices.Contains(args, "adjust"):
		name := args[len(args)-1]
		file, err := readFile(filepath.Join(n.Folder, name+".res"))
		if err != nil {
			return "", fmt.Sprintf("'%s' not defined in your config (for this host).\n", name), 1
		}
		commands := n.lacks(file)
		if slices.Contains(args, "--dry-run") {
			var b strings.Builder
			for _, c := range commands {
				b.WriteString(strings.Join(c, " ") + "\n")
			}
			return b.String(), "", 0
		}
		for _, c := range commands {
			if c[0] == "drbdmeta" {
				continue
			}
			if _, errText, code := n.drbdsetup(c[1:]); code != 0 {
				return "", errText + fmt.Sprintf("Command '%s' terminated with exit code %d\n", strings.Join(c, " "), code), 1
			}
			n.c.settle()
		}
		return "", "", 0
	case args[0] == "resize":
		name, volume, _ := strings.Cut(args[1], "/")
		if r := n.resources[name]; r != nil {
			number, _ := strconv.Atoi(volume)
			n.resize(r, number)
		}
		return "", "", 0
	}
	return "", "drbdadm: unknown command\n", 1
}

// lacks returns what brings the kernel to a file.
func (n *Node) lacks(file section) [][]string {
	name := file.words[1]
	var commands [][]string
	add := func(words ...string) { commands = append(commands, words) }
	r := n.resources[name]
	var own section
	hosts := map[string]section{}
	for _, on := range file.all("on") {
		hosts[on.words[1]] = on
		if on.words[1] == n.Name {
			own = on
		}
	}
	if r == nil {
		add(append([]string{"drbdsetup", "new-resource", name, own.value("node-id")}, flags(file.options("options"))...)...)
		r = &resource{options: file.options("options")}
	} else if !maps.Equal(r.options, file.options("options")) {
		add(append([]string{"drbdsetup", "resource-options", name, "--set-defaults"}, flags(file.options("options"))...)...)
	}
	attach := n.lackedVolumes(r, name, own, add)
	connect := n.lackedPeers(r, file, hosts, add)
	return append(append(commands, attach...), connect...)
}

// lackedVolumes adds what is to be done of volumes, and returns what is done after peers are there.
func (n *Node) lackedVolumes(r *resource, name string, own section, add func(...string)) (attach [][]string) {
	in := map[int]bool{}
	for _, v := range own.all("volume") {
		number, _ := strconv.Atoi(v.words[1])
		minor, disk := strconv.Itoa(v.number("device")), v.value("disk")
		in[number] = true
		now := r.devices[number]
		if now == nil {
			words := []string{"drbdsetup", "new-minor", name, minor, v.words[1]}
			if disk == "none" {
				words = append(words, "--diskless")
			}
			add(words...)
			now = &device{}
		} else if disk == "none" && now.disk != "" {
			add("drbdsetup", "detach", "--diskless", minor)
		}
		if disk != "none" && now.disk == "" {
			attach = append(attach, []string{"drbdmeta", minor, "v09", disk, "internal", "apply-al"}, []string{"drbdsetup", "attach", minor, disk, disk, "internal"})
		}
	}
	for _, number := range slices.Sorted(maps.Keys(r.devices)) {
		if minor := strconv.Itoa(r.devices[number].minor); !in[number] {
			add("drbdsetup", "detach", "--diskless", minor)
			add("drbdsetup", "del-minor", minor)
		}
	}
	return attach
}

func (n *Node) lackedPeers(r *resource, file section, hosts map[string]section, add func(...string)) (connect [][]string) {
	name := file.words[1]
	in := map[int]bool{}
	for _, c := range file.all("connection") {
		path := c.all("path")[0]
		ends := path.all("host") // host NAME address FAMILY ADDRESS
		local, remote := ends[0].words[3]+":"+ends[0].words[4], ends[1].words[3]+":"+ends[1].words[4]
		on := hosts[ends[1].words[1]]
		id := on.number("node-id")
		number := strconv.Itoa(id)
		in[id] = true
		net := file.options("net")
		maps.Copy(net, c.options("net"))
		net["_name"] = ends[1].words[1]
		p := r.peers[id]
		switch {
		case p == nil:
			add(append([]string{"drbdsetup", "new-peer", name, number}, flags(net)...)...)
			add("drbdsetup", "new-path", name, number, local, remote)
			p = &peer{bitmap: map[int]bool{}}
		case p.local != local || p.remote != remote:
			add("drbdsetup", "disconnect", name, number)
			add("drbdsetup", "del-path", name, number, p.local, p.remote)
			add("drbdsetup", "new-path", name, number, local, remote)
			p = &peer{bitmap: p.bitmap}
		case !maps.Equal(p.net, net):
			add(append([]string{"drbdsetup", "net-options", name, number, "--set-defaults"}, flags(net)...)...)
		}
		for _, v := range on.all("volume") {
			volume, _ := strconv.Atoi(v.words[1])
			has, known := p.bitmap[volume]
			if wants := v.value("disk") != "none"; known && has != wants || !known && !wants {
				words := []string{"drbdsetup", "peer-device-options", name, number, v.words[1], "--set-defaults"}
				if !wants {
					words = append(words, "--bitmap=no")
				}
				add(words...)
			}
		}
		if !p.started {
			connect = append(connect, []string{"drbdsetup", "connect", name, number})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(r.peers)) {
		if !in[id] {
			add("drbdsetup", "del-peer", name, strconv.Itoa(id))
		}
	}
	return connect
}

func flags(options map[string]string) []string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(options)) {
		list = append(list, "--"+key+"="+options[key])
	}
	return list
}

func (n *Node) drbdmeta(args []string) (string, string, int) {
	words, options := positional(args) // MINOR v09 DEVICE WHERE VERB ...
	d := n.disks[words[2]]
	if d == nil {
		return "", fmt.Sprintf("open(%s) failed: No such file or directory\n", words[2]), 20
	}
	for _, r := range n.resources {
		for _, v := range r.devices {
			if v.disk == words[2] {
				return "", fmt.Sprintf("Device '%s' is configured!\n", words[0]), 20
			}
		}
	}
	switch words[4] {
	case "create-md":
		if _, force := options["force"]; !force {
			return "Operation cancelled.\n", "", 1
		}
		if users := n.users[words[2]]; len(users) > 0 {
			n.c.disaster("%s: new metadata on %s, which is %s", n.Name, words[2], users[0])
		}
		d.generation, d.room, d.device, d.slots = untouched, number(words, 5), 0, map[int]bool{}
		return "New drbd meta data block successfully created.\n", "", 0
	case "set-gi":
		generation, _, _ := strings.Cut(words[len(words)-1], ":")
		if _, force := options["force"]; force { // Without, it says that it was cancelled, and 0.
			d.generation = generation
		}
		return "", "", 0
	case "get-gi":
		if d.generation == "" {
			return "", "No valid meta data found\n", 255
		}
		return d.generation + ":0000000000000000:0000000000000000:0000000000000000:0:0:0:0:1:0:0:0:0:0:0:0\n", "", 0
	}
	return "", "drbdmeta: unknown command\n", 20
}
