// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/client"
)

func TestParseVolume(t *testing.T) {
	for word, want := range map[string]client.JobEnd{
		"db":      {ResourceName: "db"},
		"db/3":    {ResourceName: "db", VolumeNumber: 3},
		"db@s1":   {ResourceName: "db", SnapshotName: "s1"},
		"db/1@s1": {ResourceName: "db", VolumeNumber: 1, SnapshotName: "s1"},
	} {
		got, err := parseVolume(word)
		if err != nil || *got != want {
			t.Errorf("%q: %+v, %v", word, got, err)
		}
	}
	for _, word := range []string{"", "/1", "db/", "db/x", "db/-1", "db@", "@s"} {
		if got, err := parseVolume(word); err == nil {
			t.Errorf("%q was read as %+v", word, got)
		}
	}
}

func TestParseFile(t *testing.T) {
	got, err := parseFile("images:a/b:c.img")
	if diff := cmp.Diff(&client.JobEnd{StoragePool: "images", Path: "a/b:c.img"}, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	for _, word := range []string{"", "x", ":x", "x:"} {
		if got, err := parseFile(word); err == nil {
			t.Errorf("%q was read as %+v", word, got)
		}
	}
}
