// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package stack_test

import (
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/agent/stack"
)

func TestMkfsOptionsArePassedOn(t *testing.T) {
	for _, tc := range []struct{ fstype, params, want string }{
		{"ext4", "", "mkfs.ext4 -F -q -E nodiscard,lazy_itable_init=1"},
		{"ext4", "-i 8192 -m0 -b4096", "mkfs.ext4 -F -q -E nodiscard,lazy_itable_init=1 -i 8192 -m 0 -b 4096"},
		{"ext4", "-FqO ^has_journal", "mkfs.ext4 -F -q -E nodiscard,lazy_itable_init=1 -F -q -O ^has_journal"},
		{"ext4", "-E stride=16,stripe_width=64", "mkfs.ext4 -F -q -E nodiscard,lazy_itable_init=1 -E nodiscard,lazy_itable_init=1,stride=16,stripe_width=64"},
		{"ext4", "-L '/data' -M /srv", "mkfs.ext4 -F -q -E nodiscard,lazy_itable_init=1 -L /data -M /srv"},
		{"ext4", "-J size=32 -U random -N 1000 -T largefile", "mkfs.ext4 -F -q -E nodiscard,lazy_itable_init=1 -J size=32 -U random -N 1000 -T largefile"},
		{"xfs", "", "mkfs.xfs -f -q -K"},
		{"xfs", "-K -m reflink=1,crc=1 -d su=64k,sw=4 -l size=64m -n size=8192", "mkfs.xfs -f -q -K -K -m reflink=1,crc=1 -d su=64k,sw=4 -l size=64m -n size=8192"},
		{"btrfs", "--nodesize 16k --label=x -M --metadata=dup --nodiscard", "mkfs.btrfs -f -q -K --nodesize 16k --label x -M --metadata dup --nodiscard"},
	} {
		program, args, err := stack.MkfsArgs(stack.Filesystem{Type: tc.fstype, MkfsParams: tc.params})
		if got := strings.Join(append([]string{program}, args...), " "); err != nil || got != tc.want {
			t.Errorf("%s with %q:\n got %s, %v\nwant %s", tc.fstype, tc.params, got, err, tc.want)
		}
	}
}

func TestMkfsOptionsThatReachElsewhereAreRefused(t *testing.T) {
	for _, tc := range []struct{ fstype, params, text string }{
		{"", "", `file system type "" is not known`},
		{"ntfs", "", "use ext4, xfs or btrfs"},
		{"Ext4", "", "is not known"},
		{"ext4; reboot", "", "is not known"},
		{"ext4", "/dev/sda", `"/dev/sda" is not an option`},
		{"ext4", "-- /dev/sda", "is not allowed"},
		{"ext4", "1000", "is not an option"},
		{"ext4", "-", "is not an option"},
		{"ext4", "-d /etc", "option -d is not allowed"},
		{"ext4", "-qd/etc", "option -d is not allowed"},
		{"ext4", "-n", "option -n is not allowed"},
		{"ext4", "-S", "option -S is not allowed"},
		{"ext4", "-V", "option -V is not allowed"},
		{"ext4", "-c", "option -c is not allowed"},
		{"ext4", "-l /etc/passwd", "option -l is not allowed"},
		{"ext4", "-z /tmp/undo", "option -z is not allowed"},
		{"ext4", "-t ext2", "option -t is not allowed"},
		{"ext4", "-J device=LABEL=x", "device in option -J is not allowed"},
		{"ext4", "-J size=4,device=UUID=x", "device in option -J is not allowed"},
		{"ext4", "-O journal_dev", "journal_dev in option -O"},
		{"ext4", "-E offset=1048576", "offset in option -E"},
		{"ext4", "-U /dev/sda", "names a path"},
		{"ext4", "-b", "option -b lacks its value"},
		{"ext4", "--version", "option --version is not allowed"},
		{"ext4", "-L 'x", "quote ' is not closed"},
		{"xfs", "-N", "option -N is not allowed"},
		{"xfs", "-p proto", "option -p is not allowed"},
		{"xfs", "-c options=/etc/x", "option -c is not allowed"},
		{"xfs", "-d name=image,file", "name in option -d"},
		{"xfs", "-d size=1g,file=1", "file in option -d"},
		{"xfs", "-l logdev=/dev/sda", "names a path"},
		{"xfs", "-l logdev=sda", "logdev in option -l"},
		{"xfs", "-r rtdev=sda", "rtdev in option -r"},
		{"btrfs", "--rootdir /etc", "option --rootdir is not allowed"},
		{"btrfs", "-r/etc", "option -r is not allowed"},
		{"btrfs", "--byte-count=1g", "is not allowed"},
		{"btrfs", "--mixed=yes", "is not allowed"},
		{"btrfs", "--label", "lacks its value"},
	} {
		_, args, err := stack.MkfsArgs(stack.Filesystem{Type: tc.fstype, MkfsParams: tc.params})
		if err == nil || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s with %q: got %q, %v, want an error with %q", tc.fstype, tc.params, args, err, tc.text)
		}
	}
}

// FuzzMkfsArgs looks whether any parameters can add a word that is taken for a device or a file.
func FuzzMkfsArgs(f *testing.F) {
	for _, seed := range []string{"", "-i 8192", "-E stride=1", "-L /x", "-qFb 4096", "--nodesize=16k", "-O a,b -- /dev/sda"} {
		for _, fstype := range []string{"ext4", "xfs", "btrfs"} {
			f.Add(fstype, seed)
		}
	}
	f.Fuzz(func(t *testing.T, fstype, params string) {
		_, args, err := stack.MkfsArgs(stack.Filesystem{Type: fstype, MkfsParams: params})
		if err != nil {
			return
		}
		for i, a := range args {
			if strings.HasPrefix(a, "-") && len(a) > 1 {
				continue // An option, or a value that is taken as it is.
			}
			if i == 0 || !strings.HasPrefix(args[i-1], "-") {
				t.Fatalf("%s with %q has the free word %q: %q", fstype, params, a, args)
			}
			if before := args[i-1]; strings.Contains(a, "/") && before != "-L" && before != "-M" && before != "--label" {
				t.Fatalf("%s with %q has the path %q: %q", fstype, params, a, args)
			}
		}
	})
}
