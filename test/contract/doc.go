// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package contract plays what the clients of the field send: linstor-csi, the plugins for CloudStack and Proxmox, Cinder's
// driver and the linstor command line, call by call and with their very bodies, against a whole controller with simulated
// hosts. What is answered is what these clients were written for; a change of it breaks somebody.
package contract
