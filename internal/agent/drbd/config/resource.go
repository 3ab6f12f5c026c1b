// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"
)

// The limits of DRBD 9 (drbd.conf(5) and the kernel's answers).
const (
	MaxNodeID = 31
	MaxMinor  = 1<<20 - 1
	MaxVolume = 65534
	maxSecret = 63
	maxName   = 127
	maxValue  = 1024
)

// Options are the options of one section with their values, as drbd.conf(5) names them.
type Options map[string]string

// Resource is all that this host has to know of a resource.
type Resource struct {
	Name      string
	Host      string // This host, as uname names it.
	NodeID    int
	Volumes   []Volume // At least one.
	Peers     []Peer
	Secret    string // That peers prove to each other to know. Empty: they do not.
	Transport string // Empty: tcp.

	Options    Options // Section options.
	Net        Options // Section net, for all connections.
	Disk       Options // Section disk, for all volumes of this host.
	PeerDevice Options // Section disk of all connections: what is sent to peers, such as c-max-rate.
	Handlers   Options // Section handlers.
}

// Volume is a volume of a resource.
type Volume struct {
	Number  int
	Minor   int
	Disk    string  // Path of the backing device. Empty: this host has none.
	Meta    string  // Path of the device that its metadata lies on. Empty: the end of the backing device.
	Options Options // Section disk of this volume, over those of all volumes.
}

// Peer is another host that has the resource.
type Peer struct {
	Name       string // In the cluster.
	NodeID     int
	Diskless   bool
	Paths      []Path  // At least one; the first is used first.
	Net        Options // Section net of this connection, over that of all.
	PeerDevice Options // Section disk of this connection, over that of all.
}

// Path is a way to a peer.
type Path struct {
	Local, Remote netip.AddrPort
}

// InvalidError says why no file can be written for a resource. Nothing was changed.
type InvalidError struct {
	Resource string
	Why      string
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("resource %s cannot be given to DRBD: %s", e.Resource, e.Why)
}

var (
	nameForm   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	optionForm = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	errValue   = errors.New("has a character that no option can have")
)

// Validate says what drbdadm does not: what it lets pass and would act upon. The error is an *InvalidError.
func (r *Resource) Validate() error {
	for _, check := range []func() error{r.checkNames, r.checkVolumes, r.checkPeers, r.checkOptions} {
		if err := check(); err != nil {
			return &InvalidError{Resource: r.Name, Why: err.Error()}
		}
	}
	return nil
}

func checkName(what, name string) error {
	// "all" is drbdadm's word for every resource.
	if !nameForm.MatchString(name) || len(name) > maxName || name == "all" {
		return fmt.Errorf("%s %q is no name that DRBD can have: use up to %d letters, digits and . _ -", what, name, maxName)
	}
	return nil
}

func (r *Resource) checkNames() error {
	if err := checkName("the resource's name", r.Name); err != nil {
		return err
	}
	if err := checkName("this host's name", r.Host); err != nil {
		return err
	}
	if r.Transport != "" && !optionForm.MatchString(r.Transport) {
		return fmt.Errorf("%q is no transport", r.Transport)
	}
	if len(r.Secret) > maxSecret {
		return fmt.Errorf("the shared secret has %d bytes, and DRBD takes at most %d", len(r.Secret), maxSecret)
	}
	// drbdsetup does not escape it where it shows it as JSON, and then nobody can read that.
	if checkValue(r.Secret) != nil || strings.ContainsAny(r.Secret, "\"\\") {
		return errors.New("the shared secret has a character that it cannot have: a quote, a backslash or a control character")
	}
	return nil
}

func (r *Resource) checkVolumes() error {
	if len(r.Volumes) == 0 {
		return errors.New("it has no volume")
	}
	numbers, minors, disks := map[int]bool{}, map[int]bool{}, map[string]bool{}
	for _, v := range r.Volumes {
		switch {
		case v.Number < 0 || v.Number > MaxVolume:
			return fmt.Errorf("volumes are numbered from 0 to %d, not %d", MaxVolume, v.Number)
		case v.Minor < 0 || v.Minor > MaxMinor:
			return fmt.Errorf("minors go from 0 to %d, and volume %d has %d", MaxMinor, v.Number, v.Minor)
		case numbers[v.Number]:
			return fmt.Errorf("volume %d is there twice", v.Number)
		case minors[v.Minor]:
			return fmt.Errorf("minor %d is that of two volumes", v.Minor)
		case v.Disk == "" && v.Meta != "":
			return fmt.Errorf("volume %d has metadata and no disk", v.Number)
		}
		numbers[v.Number], minors[v.Minor] = true, true
		for _, disk := range []string{v.Disk, v.Meta} {
			if disk == "" {
				continue
			}
			if !strings.HasPrefix(disk, "/dev/") || filepath.Clean(disk) != disk || checkValue(disk) != nil {
				return fmt.Errorf("volume %d lies on %q, which is no path of a device", v.Number, disk)
			}
			if disks[disk] {
				return fmt.Errorf("%s is named for two uses", disk)
			}
			disks[disk] = true
		}
	}
	return nil
}

func (r *Resource) checkPeers() error {
	if r.NodeID < 0 || r.NodeID > MaxNodeID {
		return fmt.Errorf("node ids go from 0 to %d, and this host has %d", MaxNodeID, r.NodeID)
	}
	names, ids, used := map[string]bool{r.Host: true}, map[int]bool{r.NodeID: true}, map[Path]bool{}
	for _, p := range r.Peers {
		if err := checkName("the peer's name", p.Name); err != nil {
			return err
		}
		switch {
		case p.NodeID < 0 || p.NodeID > MaxNodeID:
			return fmt.Errorf("node ids go from 0 to %d, and peer %s has %d", MaxNodeID, p.Name, p.NodeID)
		case names[p.Name]:
			return fmt.Errorf("%s is the name of two hosts", p.Name)
		case ids[p.NodeID]:
			return fmt.Errorf("node id %d is that of two hosts", p.NodeID)
		case len(p.Paths) == 0:
			return fmt.Errorf("no address of peer %s is known", p.Name)
		}
		names[p.Name], ids[p.NodeID] = true, true
		for _, path := range p.Paths {
			if err := path.check(); err != nil {
				return fmt.Errorf("peer %s: %w", p.Name, err)
			}
			if used[path] {
				return fmt.Errorf("the path from %s to %s is named twice", path.Local, path.Remote)
			}
			used[path] = true
		}
	}
	return nil
}

func (p Path) check() error {
	for _, a := range []netip.AddrPort{p.Local, p.Remote} {
		switch {
		case !a.IsValid() || a.Addr().IsUnspecified() || a.Addr().IsMulticast():
			return fmt.Errorf("%s is no address of a host", a)
		case a.Port() == 0:
			return fmt.Errorf("%s has no port", a.Addr())
		case a.Addr().Zone() != "":
			return fmt.Errorf("%s has a zone, which DRBD does not know", a.Addr())
		}
	}
	if p.Local == p.Remote {
		return fmt.Errorf("%s is the address of both ends", p.Local)
	}
	if p.Local.Addr().Unmap().Is4() != p.Remote.Addr().Unmap().Is4() {
		return fmt.Errorf("%s and %s are of two families", p.Local.Addr(), p.Remote.Addr())
	}
	return nil
}

func (r *Resource) checkOptions() error {
	sections := map[string]Options{"options": r.Options, "net": r.Net, "disk": r.Disk, "peer device": r.PeerDevice, "handlers": r.Handlers}
	for _, v := range r.Volumes {
		sections[fmt.Sprintf("disk of volume %d", v.Number)] = v.Options
	}
	for _, p := range r.Peers {
		sections["net of peer "+p.Name] = p.Net
		sections["peer device of peer "+p.Name] = p.PeerDevice
	}
	for section, options := range sections {
		for key, value := range options {
			if !optionForm.MatchString(key) {
				return fmt.Errorf("section %s: %q is no name of an option", section, key)
			}
			if err := checkValue(value); err != nil {
				return fmt.Errorf("section %s: the value of %s %w", section, key, err)
			}
			// The secret has a place of its own, and these sizes would shrink a device that is in use.
			if key == "shared-secret" || key == "size" {
				return fmt.Errorf("section %s: %s cannot be set as an option", section, key)
			}
		}
	}
	return nil
}

// checkValue refuses what cannot be quoted: drbdadm reads a string to the end of its line.
func checkValue(s string) error {
	if len(s) > maxValue {
		return fmt.Errorf("has %d bytes, and %d are the most", len(s), maxValue)
	}
	for _, c := range []byte(s) {
		if c < ' ' || c == 0x7f {
			return errValue
		}
	}
	return nil
}
