// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

// Package encryption tests encrypted volumes through the API of a whole cluster: from the
// passphrase to their deletion, over restarts of controllers and hosts, and that no key or
// passphrase is ever seen. Hosts are simulated; a volume of theirs opens with its own key alone.
package encryption
