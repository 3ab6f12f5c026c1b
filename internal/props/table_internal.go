// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package props

// internalTable is what Holdfast itself keeps in properties, and the few that reach into how replicas begin.
func internalTable() []Info {
	return []Info{
		{Key: "Cluster/*", Type: Free, Scopes: Controller, Internal: true, Text: "What identifies the cluster."},
		{Key: "CurStltConnName", Type: Name, Scopes: Node, Internal: true, Text: "The network interface that a node is reached over."},
		{Key: "DrbdCurrentGi", Type: Hex16, Scopes: volumeDefinitions, Text: "The generation that new replicas begin with."},
		{Key: "ExtFile/*", Type: TrueFalse, Scopes: Controller | Node | definitions, Internal: true, Text: "Which files are put on which nodes."},
		{Key: "Internal/*", Type: Free, Scopes: everywhere, Internal: true, Text: "What Holdfast keeps for itself."},
		{Key: "Linstor/Drbd/InitialUptoDateOn", Type: String, Scopes: volumeDefinitions, Unused: true, Text: "The nodes whose replicas count as up to date when the definition is new."},
		{Key: "NodeUname", Type: Free, Scopes: Node, Internal: true, Text: "The host name that a node has."},
		{Key: "PeerSlots", Type: Integer, Min: 1, Max: 31, Scopes: Resource, Internal: true, Text: "For how many peers a replica has room."},
	}
}
