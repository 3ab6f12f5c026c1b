// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package client is a small Go client of the LINSTOR REST API, as Holdfast and LINSTOR controllers serve it.
//
//	c, err := client.New([]string{"ctrl-a", "ctrl-b:3370"})
//	...
//	entries, err := c.Spawn(ctx, "ssd", client.ResourceGroupSpawn{
//		ResourceDefinitionName: "vm-100-disk-1",
//		VolumeSizes:            []client.SizeKiB{client.RoundUp(10 << 30)},
//	})
//	if client.Is(err, client.FailNotEnoughNodes) { ... }
//
// # Types
//
// Bodies are the types of the API. They are aliases of an internal package, so that a program can name and build all of
// them through this package alone. Sizes are in KiB ([SizeKiB]); optional fields are pointers, and nil means absent in a
// request and not known in an answer.
//
// # Several controllers
//
// Controllers are tried in order, starting with the one that answered last. A request goes on to the next one only when
// it cannot have been carried out: the connection was not made, nothing was sent, the controller said that it does not
// serve (status 503), or the request only reads. Otherwise the error says that the outcome is unknown
// ([ConnectionError.Unknown]), and nothing is repeated.
//
// # Errors
//
// What the controller refused is an [*Error] with the entries of its answer; [Is] tests for a code and [IsNotFound] for
// absence. When no controller answered it is a [*ConnectionError]; when something answered that does not speak the API,
// an [*UnexpectedError].
//
// A Client is safe for use by several goroutines.
package client
