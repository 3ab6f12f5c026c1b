// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package mount

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Use is how someone uses a mount.
type Use string

// The ways to use a mount.
const (
	Open     Use = "open"     // A process has a file or a folder of it open.
	Mapped   Use = "mapped"   // A process has a file of it mapped into its memory.
	WorkDir  Use = "workdir"  // The working directory of a process lies in it.
	RootDir  Use = "root"     // The root directory of a process lies in it.
	Program  Use = "program"  // A process runs a program that lies in it.
	Loop     Use = "loop"     // A file of it is under a loop device.
	Swap     Use = "swap"     // The kernel swaps to a file of it.
	Nested   Use = "nested"   // Something is mounted below it, or on top.
	Layered  Use = "layered"  // It is a layer of an overlay.
	Exported Use = "exported" // The kernel's NFS server exports it.
)

// User is someone who uses a mount: unmounting it is refused, or takes it from under them.
type User struct {
	Use     Use    `json:"use"`
	Path    string `json:"path"`              // What is used: a file, a folder, a mount point. Of several one.
	PID     int    `json:"pid,omitempty"`     // Zero when the user is no process.
	Start   uint64 `json:"start,omitempty"`   // When the process started, as StartTime tells it.
	Command string `json:"command,omitempty"` // Its name; of Loop the device, with what lies on it.
	Machine bool   `json:"machine,omitempty"` // The process is QEMU.
	VM      string `json:"vm,omitempty"`      // The name of the virtual machine, when the process is QEMU.
	VMUUID  string `json:"vmuuid,omitempty"`  // Likewise its uuid.
	Unit    string `json:"unit,omitempty"`    // The systemd unit of the process.
	Foreign bool   `json:"foreign,omitempty"` // The process lives in another mount namespace than the agent.
	Own     bool   `json:"own,omitempty"`     // The process is a helper of the agent.
}

// String returns the user as people read it: "VM i-2-41 (pid 6746) has /…/d.qcow2 open".
func (u User) String() string {
	switch u.Use {
	case Loop:
		return fmt.Sprintf("loop device %s lies on %s", u.Command, u.Path)
	case Swap:
		return "the kernel swaps to " + u.Path
	case Nested:
		return "something is mounted at " + u.Path
	case Layered:
		return "the overlay at " + u.Path + " has a layer in it"
	case Exported:
		return "the NFS server of this host exports " + u.Path
	case Open, Mapped, WorkDir, RootDir, Program:
	}
	var b strings.Builder
	switch {
	case u.VM != "":
		fmt.Fprintf(&b, "VM %s", u.VM)
	case u.Command != "":
		b.WriteString(u.Command)
	default:
		b.WriteString("a process")
	}
	fmt.Fprintf(&b, " (pid %d", u.PID)
	if u.Unit != "" && u.VM == "" {
		fmt.Fprintf(&b, " of %s", u.Unit)
	}
	if u.Foreign {
		b.WriteString(", in another mount namespace")
	}
	b.WriteString(")")
	switch u.Use {
	case Mapped:
		fmt.Fprintf(&b, " has %s mapped", u.Path)
	case WorkDir:
		fmt.Fprintf(&b, " works in %s", u.Path)
	case RootDir:
		fmt.Fprintf(&b, " has %s as its root", u.Path)
	case Program:
		fmt.Fprintf(&b, " runs %s", u.Path)
	default:
		fmt.Fprintf(&b, " has %s open", u.Path)
	}
	return b.String()
}

// Users finds out who uses e, in all mount namespaces, without touching its file system. An error says that not everyone could be seen;
// the users found so far are returned all the same. Helpers of the agent itself are among them, marked as Own. Processes that are better protected
// than the agent are not seen: for those there is only the kernel's refusal to unmount.
func (k *Kernel) Users(ctx context.Context, e Entry) ([]User, error) {
	ans, err := k.help(ctx, "users", request{
		Step: "look for users of", Source: e.Source, Slot: k.slot(fmt.Sprintf("mount-%d-%d", e.ID, e.Unique), "users"), Target: e.Target, Entry: e,
	})
	return ans.Users, err
}

// Others returns the users that are no helpers of the agent.
func Others(users []User) []User {
	return slices.DeleteFunc(slices.Clone(users), func(u User) bool { return u.Own })
}
