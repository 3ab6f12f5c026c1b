// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package zfs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Properties of what is ours.
const (
	propVolume   = "holdfast:volume"
	propSnapshot = "holdfast:snapshot"
	propRolled   = "holdfast:rolled" // The token of the volume's last roll-back.
)

// Values of the first two.
const (
	isNew      = "new"
	isFinished = "finished"
	isHalf     = "half" // On its way to become the content of a volume that is rolled back.
	isGone     = "gone" // Removed for its user, and kept for what depends on it.
)

// Report is what ZFS says of a dataset and what lies directly below it.
type Report struct {
	Root      Row
	Volumes   map[string]Row   // By name, without the dataset.
	Snapshots map[string][]Row // By the name of their volume; names are those behind the at sign. The oldest first.
}

// Row is a dataset, a zvol or a snapshot. Sizes are bytes; zero is also what ZFS does not tell of a thing of that kind.
type Row struct {
	Name        string
	Type        string // filesystem, volume or snapshot.
	GUID        string
	Used        int64
	Available   int64
	Quota       int64
	ReadOnly    bool
	Size        int64
	Block       int64
	Referenced  int64
	OfSnapshots int64 // What its snapshots take together.
	Reserved    int64
	Origin      string
	Created     time.Time
	Open        bool // It has a device.
	Clones      []string
	Deferred    bool // It goes with its last clone.
	State       string
	RolledBack  string
}

const fields = "name,type,guid,used,available,quota,readonly,volsize,volblocksize,referenced,usedbysnapshots,refreservation,origin,creation,volmode,clones,defer_destroy," +
	propVolume + "," + propSnapshot + "," + propRolled

func reportArgs(dataset string) []string {
	return []string{"list", "-Hp", "-r", "-t", "filesystem,volume,snapshot", "-s", "createtxg", "-o", fields, dataset}
}

// ParseReport reads what zfs list printed of a dataset and all below it. What does not lie directly below it, and file systems, are left out.
func ParseReport(dataset, text string) (Report, error) {
	r := Report{Volumes: map[string]Row{}, Snapshots: map[string][]Row{}}
	for line := range strings.Lines(text) {
		row, err := parseRow(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return Report{}, fmt.Errorf("read the list of dataset %s: %w", dataset, err)
		}
		if row.Name == dataset {
			r.Root = row
			continue
		}
		name, ok := strings.CutPrefix(row.Name, dataset+"/")
		if !ok || strings.Contains(name, "/") {
			continue
		}
		row.Name = name
		switch row.Type {
		case "volume":
			r.Volumes[name] = row
		case "snapshot":
			if of, snapshot, ok := strings.Cut(name, "@"); ok {
				row.Name = snapshot
				r.Snapshots[of] = append(r.Snapshots[of], row)
			}
		}
	}
	if r.Root.Type != "filesystem" {
		return Report{}, fmt.Errorf("read the list of dataset %s: it is not in there as a file system", dataset)
	}
	return r, nil
}

var errColumns = errors.New("a line does not have the columns that were asked for")

func parseRow(line string) (Row, error) {
	words := strings.Split(line, "\t")
	if len(words) != strings.Count(fields, ",")+1 {
		return Row{}, errColumns
	}
	row := Row{
		Name: words[0], Type: words[1], GUID: words[2], ReadOnly: words[6] == "on", Origin: told(words[12]), Open: words[14] == "dev" || words[14] == "default" || words[14] == "full" || words[14] == "geom",
		Deferred: words[16] == "on", State: told(words[17]), RolledBack: told(words[19]),
	}
	if row.Type == "snapshot" { // The first property is that of its volume.
		row.State = told(words[18])
	}
	if clones := told(words[15]); clones != "" {
		row.Clones = strings.Split(clones, ",")
	}
	var created int64
	for _, number := range []struct {
		column int
		into   *int64
	}{
		{3, &row.Used},
		{4, &row.Available},
		{5, &row.Quota},
		{7, &row.Size},
		{8, &row.Block},
		{9, &row.Referenced},
		{10, &row.OfSnapshots},
		{11, &row.Reserved},
		{13, &created},
	} {
		word := told(words[number.column])
		if word == "" || word == "none" {
			continue
		}
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil || n < 0 {
			return Row{}, fmt.Errorf("%s has %q where a number belongs", row.Name, word)
		}
		*number.into = n
	}
	row.Created = time.Unix(created, 0)
	return row, nil
}

// told is a word, or nothing where ZFS says nothing.
func told(word string) string {
	if word == "-" {
		return ""
	}
	return word
}
