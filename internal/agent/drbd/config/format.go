// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// header begins every file that is ours.
const header = "# Written by Holdfast: changes are overwritten."

// defaultHMAC proves the shared secret where no option says otherwise.
const defaultHMAC = "sha256"

// Format returns the file of r. The same resource gives the same bytes. The error is an *InvalidError.
func Format(r *Resource) ([]byte, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	w := &writer{}
	w.line(header)
	w.open("resource %s", quote(r.Name))
	w.section("options", r.Options)
	w.section("net", r.netOptions())
	w.section("handlers", r.Handlers)
	volumes := slices.SortedFunc(slices.Values(r.Volumes), func(a, b Volume) int { return cmp.Compare(a.Number, b.Number) })
	w.open("on %s", quote(r.Host))
	w.line("node-id %d;", r.NodeID)
	for _, v := range volumes {
		w.volume(v, merged(r.Disk, v.Options))
	}
	w.close()
	peers := slices.SortedFunc(slices.Values(r.Peers), func(a, b Peer) int { return cmp.Compare(a.NodeID, b.NodeID) })
	for _, p := range peers {
		w.peer(p, volumes)
	}
	for _, p := range peers {
		w.connection(r.Host, p, merged(r.PeerDevice, p.PeerDevice))
	}
	w.close()
	return w.b.Bytes(), nil
}

// netOptions are the options of all connections, those that have a place of their own with them.
func (r *Resource) netOptions() Options {
	options := merged(r.Net, nil)
	if r.Transport != "" {
		options["transport"] = r.Transport
	}
	if r.Secret != "" {
		if options["cram-hmac-alg"] == "" {
			options["cram-hmac-alg"] = defaultHMAC
		}
		options["shared-secret"] = r.Secret
	}
	return options
}

// merged are options with others over them. They are not left to drbdadm to inherit: it calls some of those that are set at two levels ambiguous.
func merged(options, over Options) Options {
	all := Options{}
	maps.Copy(all, options)
	maps.Copy(all, over)
	return all
}

// writer writes lines with the indent of the section that they are in.
type writer struct {
	b     bytes.Buffer
	depth int
}

func (w *writer) line(format string, args ...any) {
	w.b.WriteString(strings.Repeat("    ", w.depth))
	fmt.Fprintf(&w.b, format, args...)
	w.b.WriteByte('\n')
}

func (w *writer) open(format string, args ...any) {
	w.line(format+" {", args...)
	w.depth++
}

func (w *writer) close() {
	w.depth--
	w.line("}")
}

// section writes options in order, and nothing when there are none.
func (w *writer) section(name string, options Options) {
	if len(options) == 0 {
		return
	}
	w.open("%s", name)
	for _, key := range slices.Sorted(maps.Keys(options)) {
		w.line("%s %s;", key, value(options[key]))
	}
	w.close()
}

func (w *writer) volume(v Volume, options Options) {
	w.open("volume %d", v.Number)
	w.line("device minor %d;", v.Minor)
	if v.Disk == "" {
		w.line("disk none;")
	} else {
		w.line("disk %s;", quote(v.Disk))
		meta := "internal"
		if v.Meta != "" {
			meta = quote(v.Meta)
		}
		w.line("meta-disk %s;", meta)
	}
	if v.Disk != "" {
		w.section("disk", options)
	}
	w.close()
}

// peer writes the section of another host. Of its disks drbdadm only has to know whether there are any: the paths are placeholders, different for each
// volume, because drbdadm refuses a disk that a host uses twice.
func (w *writer) peer(p Peer, volumes []Volume) {
	w.open("on %s", quote(p.Name))
	w.line("node-id %d;", p.NodeID)
	for _, v := range volumes {
		w.open("volume %d", v.Number)
		w.line("device minor %d;", v.Minor)
		if p.Diskless {
			w.line("disk none;")
		} else {
			w.line("disk %s;", quote(fmt.Sprintf("/dev/drbd/of-peer/%d", v.Minor)))
			w.line("meta-disk internal;")
		}
		w.close()
	}
	w.close()
}

func (w *writer) connection(host string, p Peer, device Options) {
	w.open("connection")
	for _, path := range p.Paths {
		w.open("path")
		w.line("host %s address %s;", quote(host), address(path.Local))
		w.line("host %s address %s;", quote(p.Name), address(path.Remote))
		w.close()
	}
	w.section("net", p.Net)
	w.section("disk", device)
	w.close()
}

func address(a netip.AddrPort) string {
	ip := a.Addr().Unmap()
	if ip.Is4() {
		return fmt.Sprintf("ipv4 %s:%d", ip, a.Port())
	}
	return fmt.Sprintf("ipv6 [%s]:%d", ip, a.Port())
}

// value writes plain words as they are and quotes everything else.
func value(s string) string {
	plain := s != ""
	for _, c := range []byte(s) {
		plain = plain && (c == '-' || c == '_' || c == '.' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z')
	}
	if plain {
		return s
	}
	return quote(s)
}

func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
