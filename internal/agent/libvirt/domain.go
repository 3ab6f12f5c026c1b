// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package libvirt

import (
	"encoding/xml"
	"fmt"
	"path/filepath"
	"strings"
)

// domain is what matters of the description of a domain.
type domain struct {
	Name string `xml:"name"`
	OS   struct {
		Kernel string `xml:"kernel"`
		Initrd string `xml:"initrd"`
		DTB    string `xml:"dtb"`
		Loader string `xml:"loader"`
		NVRAM  string `xml:"nvram"`
	} `xml:"os"`
	Devices struct {
		Disks       []disk `xml:"disk"`
		Filesystems []struct {
			Source source `xml:"source"`
		} `xml:"filesystem"`
	} `xml:"devices"`
}

type disk struct {
	Source   source    `xml:"source"`
	Backing  *backing  `xml:"backingStore"`
	Mirror   *mirror   `xml:"mirror"`
	ReadOnly *struct{} `xml:"readonly"`
}

// backing is what an image lies on, and so on.
type backing struct {
	Source  source   `xml:"source"`
	Backing *backing `xml:"backingStore"`
}

// mirror is what a disk is being copied to.
type mirror struct {
	File    string   `xml:"file,attr"` // As older versions write it.
	Source  source   `xml:"source"`
	Backing *backing `xml:"backingStore"`
}

// source is a file or folder. Those of other kinds have none of these.
type source struct {
	File      string `xml:"file,attr"`
	Dir       string `xml:"dir,attr"`
	DataStore *struct {
		Source source `xml:"source"`
	} `xml:"dataStore"`
}

// use is a file that a domain uses.
type use struct {
	path  string
	write bool
}

// parse reads the description of a domain and returns its name and the files that it uses.
func parse(text string) (name string, uses []use, err error) {
	var d domain
	if err := xml.Unmarshal([]byte(text), &d); err != nil {
		return "", nil, fmt.Errorf("read the description of a domain: %w", err)
	}
	if d.Name == "" {
		return "", nil, fmt.Errorf("the description of a domain has no name in it")
	}
	add := func(path string, write bool) {
		path = strings.TrimSpace(path)
		if filepath.IsAbs(path) && !strings.HasPrefix(path, "/dev/") {
			uses = append(uses, use{filepath.Clean(path), write})
		}
	}
	for _, f := range []string{d.OS.Kernel, d.OS.Initrd, d.OS.DTB, d.OS.Loader} {
		add(f, false)
	}
	add(d.OS.NVRAM, true)
	for _, k := range d.Devices.Disks {
		write := k.ReadOnly == nil
		k.Source.each(write, add)
		k.Backing.each(add)
		if k.Mirror != nil {
			add(k.Mirror.File, true)
			k.Mirror.Source.each(true, add)
			k.Mirror.Backing.each(add)
		}
	}
	for _, f := range d.Devices.Filesystems {
		f.Source.each(true, add)
	}
	return d.Name, uses, nil
}

func (s source) each(write bool, add func(string, bool)) {
	add(s.File, write)
	add(s.Dir, write)
	if s.DataStore != nil {
		s.DataStore.Source.each(write, add)
	}
}

// each adds the whole chain: whoever commits into it writes to it, but then it is a mirror or the disk itself.
func (b *backing) each(add func(string, bool)) {
	for ; b != nil; b = b.Backing {
		b.Source.each(false, add)
	}
}
