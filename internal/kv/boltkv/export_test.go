// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package boltkv

import (
	"errors"

	bolt "go.etcd.io/bbolt"

	"github.com/holdfast-storage/holdfast/internal/kv"
)

// FailNextCommit makes the next commit of an engine end in the two ways that leave its outcome open: the file cannot be synced
// after everything was written, or bbolt panics before.
func FailNextCommit(e kv.Engine, written bool) {
	b := e.(*Engine)
	b.commit = func(tx *bolt.Tx) error {
		b.commit = (*bolt.Tx).Commit
		if !written {
			panic("assertion failed")
		}
		return errors.Join(errors.New("input/output error"), tx.Commit())
	}
}

// Forget drops the history of an engine.
func Forget(e kv.Engine) {
	b := e.(*Engine)
	b.history.reset(b.revision)
}
