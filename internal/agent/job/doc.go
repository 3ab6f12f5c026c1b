// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package job does the long works of a host: it copies a volume into another, downloads an image into a volume, exports a
// volume or snapshot into a file of a pool, and imports one.
//
// # What is promised
//
//   - A job is kept on disk. It goes on without a controller, and after a restart of the agent it is resumed.
//   - A job holds all pools that it works in from its first step to its last, and no longer.
//   - A job is done when its result was made durable, read again and found to be what it has to be. Otherwise it has failed or
//     was cancelled, and then nothing of it is left: no file, no clone, and a volume that was being written reads as zeros.
//     As long as that could not be brought about, it goes on trying.
//   - What refuses a job before anything was written leaves the volume as it was: it is in use, the image is larger than
//     it, or is not of the format that it is said to be.
//   - The format of an image is what the job says and is never guessed. An image that refers to other files is refused.
//   - The work is done in a worker, a process of its own: a server that hangs holds up its jobs alone.
//
// What a volume in use has is read from a clone, which is of one moment. So are snapshots.
package job
