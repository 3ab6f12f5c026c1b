// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Block is a block device as lsblk tells of it.
type Block struct {
	Path       string
	Kernel     string // the kernel's name, such as sda
	Type       string // disk, part, loop, lvm, ...
	Size       int64  // bytes
	Rotational bool
	ReadOnly   bool
	Model      string
	Serial     string
	WWN        string
	Filesystem string // signature of what lies on it, as far as the host's database knows
	Table      string // kind of its partition table, likewise
	PartType   string // of a partition: what the table says that it is, likewise
	Mounts     []string
	Children   []Block // what lies on it
}

// columns are those of lsblk that [Parse] reads, and its first: without it, lsblk does not tell what lies on what.
const columns = "NAME,PATH,KNAME,TYPE,SIZE,ROTA,RO,MODEL,SERIAL,WWN,FSTYPE,PTTYPE,PARTTYPE,MOUNTPOINT"

// maxDepth bounds how deep devices may be stacked.
const maxDepth = 32

// Parse reads what lsblk prints as JSON with sizes in bytes. It takes the forms of all its versions: numbers and booleans were
// strings once, and a device has one mount point or several.
func Parse(output []byte) ([]Block, error) {
	var all struct {
		Devices []printed `json:"blockdevices"`
	}
	if len(bytes.TrimSpace(output)) == 0 {
		return nil, nil // There are no block devices at all.
	}
	if err := json.Unmarshal(output, &all); err != nil {
		return nil, fmt.Errorf("read what lsblk printed: %w", err)
	}
	return blocks(all.Devices, 0)
}

// printed is a device in the form of lsblk.
type printed struct {
	Path     text      `json:"path"`
	Kernel   text      `json:"kname"`
	Type     text      `json:"type"`
	Size     number    `json:"size"`
	Rota     truth     `json:"rota"`
	ReadOnly truth     `json:"ro"`
	Model    text      `json:"model"`
	Serial   text      `json:"serial"`
	WWN      text      `json:"wwn"`
	FSType   text      `json:"fstype"`
	PTType   text      `json:"pttype"`
	PartType text      `json:"parttype"`
	Mount    text      `json:"mountpoint"`
	Mounts   []text    `json:"mountpoints"`
	Children []printed `json:"children"`
}

func blocks(list []printed, depth int) ([]Block, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("read what lsblk printed: devices are stacked more than %d deep", maxDepth)
	}
	var out []Block
	for _, p := range list {
		children, err := blocks(p.Children, depth+1)
		if err != nil {
			return nil, err
		}
		b := Block{
			Path: string(p.Path), Kernel: string(p.Kernel), Type: string(p.Type), Size: int64(p.Size), Rotational: bool(p.Rota),
			ReadOnly: bool(p.ReadOnly), Model: string(p.Model), Serial: string(p.Serial), WWN: string(p.WWN),
			Filesystem: string(p.FSType), Table: string(p.PTType), PartType: string(p.PartType), Children: children,
		}
		for _, m := range append(p.Mounts, p.Mount) {
			if m != "" {
				b.Mounts = append(b.Mounts, string(m))
			}
		}
		out = append(out, b)
	}
	return out, nil
}

// text is a string, or null. Spaces around it are those of the hardware.
type text string

func (t *text) UnmarshalJSON(b []byte) error {
	var s *string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	*t = ""
	if s != nil {
		*t = text(strings.TrimSpace(*s))
	}
	return nil
}

// number is a number of bytes, also in a string.
type number int64

func (n *number) UnmarshalJSON(b []byte) error {
	s := strings.Trim(string(b), `"`)
	if s == "null" || s == "" {
		*n = 0
		return nil
	}
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil || v > math.MaxInt64 {
		return fmt.Errorf("%.40q is no size in bytes", s)
	}
	*n = number(v)
	return nil
}

// truth is a boolean, also as a number or in a string.
type truth bool

func (t *truth) UnmarshalJSON(b []byte) error {
	switch strings.Trim(string(b), `"`) {
	case "true", "1":
		*t = true
	case "false", "0", "null", "":
		*t = false
	default:
		return fmt.Errorf("%.40q is neither true nor false", b)
	}
	return nil
}
