// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package replicas tests the life of volumes on two hosts: a real controller and two real agents, whose DRBD and pools are models. What the same calls do
// on a real kernel is in the family walk of the lab.
package replicas
