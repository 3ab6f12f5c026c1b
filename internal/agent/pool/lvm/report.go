// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package lvm

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Report is what LVM says of one volume group.
type Report struct {
	Group   Group
	Volumes map[string]Volume // By name, without LVM's own.
}

// Group is a volume group. Sizes are bytes.
type Group struct {
	Name    string
	UUID    string
	Size    int64
	Free    int64
	Extent  int64
	Missing int // Physical volumes that are not there.

	Writable bool
	Exported bool
}

// Volume is a logical volume. Sizes are bytes.
type Volume struct {
	Name    string
	UUID    string
	Kind    byte // The first of LVM's attributes: '-' and others for a plain one, 'V' for a thin one, 't' for a thin pool, 's' for a snapshot, 'o' for its origin.
	Size    int64
	Tags    []string
	Pool    string // The thin pool that it lies in.
	Origin  string
	Created time.Time
	Active  bool
	Health  string // What is wrong, in LVM's word; empty for nothing.
	Stripes int64  // At least one.
	ThinID  int64  // The number of a thin volume in its pool.
}

// Has tells whether a volume has a tag.
func (v Volume) Has(tag string) bool { return slices.Contains(v.Tags, tag) }

// What is asked of LVM. A field of segments comes once for each segment.
const (
	groupFields  = "vg_name,vg_uuid,vg_attr,vg_size,vg_free,vg_extent_size,vg_missing_pv_count"
	volumeFields = "lv_name,lv_uuid,lv_attr,lv_size,lv_tags,pool_lv,origin,lv_time,lv_active,lv_health_status"
	partFields   = "lv_name,stripes,thin_id"
)

// reportArgs are the arguments of lvm for the report of a group. What is not wanted of the full report is left empty.
func reportArgs(group string) []string {
	return []string{
		"fullreport", "--reportformat", "json", "--units", "b", "--nosuffix", "--config", `report{time_format="%s"}`,
		"--configreport", "vg", "-o", groupFields, "--configreport", "lv", "-o", volumeFields, "--configreport", "seg", "-o", partFields,
		"--configreport", "pv", "-o", "pv_name", "-S", `pv_name=""`, "--configreport", "pvseg", "-o", "pvseg_start", "-S", "pvseg_start=-1",
		group,
	}
}

// ParseReport reads what lvm fullreport printed of one volume group.
func ParseReport(text []byte) (Report, error) {
	var said struct {
		Report []struct {
			VG []struct {
				Name    string `json:"vg_name"`
				UUID    string `json:"vg_uuid"`
				Attr    string `json:"vg_attr"`
				Size    bytes  `json:"vg_size"`
				Free    bytes  `json:"vg_free"`
				Extent  bytes  `json:"vg_extent_size"`
				Missing number `json:"vg_missing_pv_count"`
			} `json:"vg"`
			LV  []volumeRow `json:"lv"`
			Seg []partRow   `json:"seg"`
		} `json:"report"`
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return Report{}, fmt.Errorf("read the report of a volume group: %w", err)
	}
	if len(said.Report) != 1 || len(said.Report[0].VG) != 1 {
		return Report{}, errors.New("read the report of a volume group: it is not about one group")
	}
	g := said.Report[0].VG[0]
	if g.Extent <= 0 {
		return Report{}, fmt.Errorf("read the report of volume group %s: its extents have %d bytes", g.Name, g.Extent)
	}
	if len(g.Attr) < 4 {
		return Report{}, fmt.Errorf("read the report of volume group %s: its attributes are %q", g.Name, g.Attr)
	}
	r := Report{
		Group: Group{
			Name: g.Name, UUID: g.UUID, Size: int64(g.Size), Free: int64(g.Free), Extent: int64(g.Extent), Missing: int(g.Missing),
			Writable: g.Attr[0] == 'w', Exported: g.Attr[2] == 'x',
		},
		Volumes: map[string]Volume{},
	}
	for _, row := range said.Report[0].LV {
		v, err := row.volume()
		if err != nil {
			return Report{}, fmt.Errorf("read the report of volume group %s: %w", g.Name, err)
		}
		r.Volumes[v.Name] = v
	}
	for _, row := range said.Report[0].Seg {
		if v, ok := r.Volumes[row.Name]; ok {
			v.Stripes = max(v.Stripes, int64(row.Stripes))
			v.ThinID = int64(row.ThinID)
			r.Volumes[row.Name] = v
		}
	}
	return r, nil
}

type volumeRow struct {
	Name   string `json:"lv_name"`
	UUID   string `json:"lv_uuid"`
	Attr   string `json:"lv_attr"`
	Size   bytes  `json:"lv_size"`
	Tags   string `json:"lv_tags"`
	Pool   string `json:"pool_lv"`
	Origin string `json:"origin"`
	Time   number `json:"lv_time"`
	Active string `json:"lv_active"`
	Health string `json:"lv_health_status"`
}

type partRow struct {
	Name    string `json:"lv_name"`
	Stripes number `json:"stripes"`
	ThinID  number `json:"thin_id"`
}

func (row volumeRow) volume() (Volume, error) {
	if row.Name == "" || row.Attr == "" {
		return Volume{}, fmt.Errorf("a logical volume has the name %q and the attributes %q", row.Name, row.Attr)
	}
	v := Volume{
		Name: row.Name, UUID: row.UUID, Kind: row.Attr[0], Size: int64(row.Size), Pool: row.Pool, Origin: row.Origin,
		Created: time.Unix(int64(row.Time), 0), Active: row.Active != "", Health: row.Health, Stripes: 1,
	}
	if row.Tags != "" {
		v.Tags = strings.Split(row.Tags, ",")
	}
	return v, nil
}

// bytes is a size as LVM writes it in JSON: a number in a string. It is never negative.
type bytes int64

// UnmarshalJSON implements json.Unmarshaler.
func (b *bytes) UnmarshalJSON(text []byte) error {
	n, err := parseNumber(text)
	if err != nil || n < 0 {
		return fmt.Errorf("%s is no size in bytes", text)
	}
	*b = bytes(n)
	return nil
}

// number is a count in a string, or nothing, which is zero.
type number int64

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(text []byte) error {
	if string(text) == `""` {
		*n = 0
		return nil
	}
	is, err := parseNumber(text)
	if err != nil {
		return fmt.Errorf("%s is no number", text)
	}
	*n = number(is)
	return nil
}

func parseNumber(text []byte) (int64, error) {
	return strconv.ParseInt(strings.Trim(string(text), `"`), 10, 64)
}
