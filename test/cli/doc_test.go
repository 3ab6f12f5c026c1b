// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package cli_test runs the scripts of testdata: the real program against a real controller with simulated hosts, and with names that
// begin with real, against holdfast up with real devices. They read as documentation: what is typed, and below it what is printed.
//
// A script has three nodes, n1, n2 and n3, each with a pool named data of 1 TiB. Besides the commands of testscript it has:
//
//	golden FILE            what the last command has printed is this, with the same identifiers and times for all runs
//	stop-agent NODE        the agent of a node ends, and the controller has noticed
//	start-agent NODE       it is there again
//	fail RESOURCE WHY      hosts fail to make a resource, until pass
//	pass RESOURCE
//	hold RESOURCE          hosts that make a resource wait, until release
//	await RESOURCE         waits until a host has come to that
//	release RESOURCE
//	controller-file FILE   writes a linstor-client.conf that names the controller
//	terminal COLUMNS TYPED COMMAND...
//	                       the command runs on a terminal of that width, and this is typed there
//	listen KIND            something that is no controller listens: $KIND is its address
//	replicas NUMBER        waits until there are so many replicas
//	definitions NUMBER     the same of resource definitions
//
// After a change of what is printed: go test ./test/cli -update, and read the difference.
package cli_test
