// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package freeze

// WriteNote writes what an agent notes that froze the filesystem of a device by a guard. The agent has ended.
func WriteNote(dir string, device uint64, fstype string, agent, guard int) error {
	g, err := identify(guard)
	if err != nil {
		return err
	}
	n := note{Agent: process{PID: agent, Start: "1"}, Guard: g, Device: device, Sequence: sequence(device), Type: fstype}
	return n.write(dir)
}
