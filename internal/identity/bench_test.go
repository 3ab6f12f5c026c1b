// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package identity_test

import "testing"

// BenchmarkReport is a call over an open connection, with all that is checked of the caller.
func BenchmarkReport(b *testing.B) {
	c := newController(b)
	c.register("n1")
	conn := c.dialAs(b, "n1")
	defer closed(b, conn)
	for b.Loop() {
		if err := report(b.Context(), conn, "n1"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHandshake is a new connection with a call, which reads and verifies certificates on
// both sides.
func BenchmarkHandshake(b *testing.B) {
	c := newController(b)
	c.register("n1")
	for b.Loop() {
		conn := c.dialAs(b, "n1")
		if err := report(b.Context(), conn, "n1"); err != nil {
			b.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkJoin is a whole joining without the network: a new token, a key, a request, and the
// certificate.
func BenchmarkJoin(b *testing.B) {
	c := newController(b)
	c.register("n1")
	for b.Loop() {
		if err := ask(b, c, "n1", c.token("n1").Secret); err != nil {
			b.Fatal(err)
		}
	}
}
