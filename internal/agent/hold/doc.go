// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package hold keeps the mounted sources of storage pools alive on this host while someone needs them, and takes them down when nobody does.
//
// # Vocabulary
//
// A [Pool] names a source and how it is wanted. Pools of one source share one mount. A [Hold] is one user's claim on a pool: it has an id
// that the user chose and a [Holder] with a name. Holds are a set; nothing is counted. A pool that this host shall have mounted, used or
// not, is desired: [Set.Ensure] and [Set.Forget] say so, and that is no hold. A [Teardown] is what became of a mount after a hold left
// it; it is never an error of what the holder did.
//
// # What a Set promises
//
//   - For each source there is one owner. It decides that nobody holds the source, and begins to unmount it, in one step. Whoever comes
//     later waits for the end of that and gets a mount all the same. At most one change of a source is under way.
//   - A hold is returned only after it was recorded, and after that the mount was seen to be the very one that is expected.
//   - A failed or cancelled acquire leaves no hold. Releasing a hold that is not there changes nothing and is reported as an anomaly.
//   - Nothing is unmounted while someone uses it: a holder, a virtual machine or other user that a [Finder] knows, or a process that is
//     found in any mount namespace. As long as one of them cannot be asked, nothing is unmounted.
//   - An unmount has succeeded when the mount is gone from the kernel's table, and in no other case. One that failed is tried again for
//     ever, and its blockers are named. Force is used only on transfer pools that nobody uses, after a time.
//   - No call waits for anything that it could not wait for until the end of its context; [Set.Inspect] never waits. What hangs in the kernel
//     is left there, and the source is Unknown until it ends. Other sources do not notice.
//   - After a restart the holds, and what was being done, are known from the journal and the kernel's table. A holder that has died is
//     released after a time of grace.
//   - A mount that went away behind our back is not mounted again under users that may write, and is mounted again for others.
//   - A mount at the place of a source that nobody recorded is verified and taken when it shows that very source. Anything else that lies
//     there, and mounts of no source in our folder, are reported and left alone.
//
// # How to work on a pool
//
// Programs that read or write a pool are run through mount.Kernel.Enter with the mount and the folder of the hold: they then begin in the
// verified mount and cannot miss it. The agent's own process never touches a path below a mount.
//
// # Seams
//
// A [Driver] mounts and unmounts: mount.Kernel does. A [Journal] keeps the records: [Files] does. A [Finder] knows users who have acquired
// nothing: [Machines] knows running virtual machines, and libvirt knows all. A [Liveness] knows whether holders live: [Processes] knows it of
// processes. Config.Observe gets all events, for logs and metrics, and [Set.Count] the figures of the moment.
//
// All methods of a Set may be called by many goroutines at once.
package hold
