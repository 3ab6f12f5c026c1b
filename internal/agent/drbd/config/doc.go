// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package config writes the configuration files from which drbdadm sets up the resources of this host.
//
// There is one file for each resource, and it is complete: every peer has a connection of its own with all its paths, every node its id, every
// volume its minor, its disk and where its metadata is. drbdadm acts on what a file leaves out: without connections it deletes all
// peers of a resource that runs. It also takes a file whose end is cut off. So a file is checked here for everything that drbdadm lets pass,
// is checked by drbdadm before it counts (by [Folder.Write]), and replaces the one before it in one instant.
//
// drbdadm finds its own host in a file by the name that uname prints. A node may have another name in the cluster: so the host's section
// is headed by [Resource].Host, and peers by their names in the cluster.
//
// Values are given as they are meant and quoted here. What options mean and which are inherited from where is not known here: whoever
// asks for a file gives the values that are in force, by section.
//
// Files that do not begin with our header are somebody else's. They are never changed or removed.
package config
