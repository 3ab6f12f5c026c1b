// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const printed = `=== RUN   TestDriver
=== RUN   TestDriver/LVM
--- PASS: TestDriver (9.00s)
    --- PASS: TestDriver/LVM (8.00s)
        --- PASS: TestDriver/LVM/OpenIsRepeatable (1.00s)
        --- SKIP: TestDriver/LVM/CloneIsNewUntilFinished (0.00s)
            suite_clone.go:20: the driver makes no clones
        --- FAIL: TestDriver/LVM/UsedVolumeIsNotTouched (0.00s)
            --- PASS: TestDriver/LVM/UsedVolumeIsNotTouched/open (0.00s)
            --- FAIL: TestDriver/LVM/UsedVolumeIsNotTouched/mounted (0.00s)
--- PASS: TestNames (0.00s)
FAIL
`

func TestTestsAreCountedByProvider(t *testing.T) {
	want := []Row{
		{What: "provider LVM", Passed: 2, Failed: 1, Left: []string{"CloneIsNewUntilFinished"}},
		{What: "tests of `a/b`", Passed: 1},
	}
	if diff := cmp.Diff(want, Count("a/b", printed)); diff != "" {
		t.Error(diff)
	}
}

func TestFamiliesThatWereLeftOutKeepTheirLines(t *testing.T) {
	page := "text\n" + begin + "| family | what | on | tests | left out |\n|---|---|---|---|---|\n| lvm | old | x | 1 passed | nothing |\n| zfs | kept | y | 2 passed | nothing |\n" + end + "more\n"
	got, err := Insert(page, []Row{{Family: "lvm", What: "new", On: "z", Passed: 3}})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"text\n", "more\n", "| lvm | new | z | 3 passed | nothing |\n", "| zfs | kept | y | 2 passed | nothing |\n"} {
		if !strings.Contains(got, line) {
			t.Errorf("lacks %q:\n%s", line, got)
		}
	}
	if strings.Contains(got, "old") {
		t.Errorf("the old line is left:\n%s", got)
	}
	if again, err := Insert(got, nil); err != nil || again != got {
		t.Errorf("nothing new changed the page: %v\n%s", err, again)
	}
	if _, err := Insert("no marks", nil); err == nil {
		t.Error("a page without marks was taken")
	}
}
