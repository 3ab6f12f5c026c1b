// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package boltkv

import (
	"errors"

	bolt "go.etcd.io/bbolt"

	"github.com/holdfast-storage/holdfast/internal/kv"
)

// FailNextCommit makes the next commit of an engine end as it does when the file cannot be synced: the error says nothing of whether the
// commit is in the file.
func FailNextCommit(e kv.Engine, written bool) {
	b := e.(*Engine)
	b.commit = func(tx *bolt.Tx) error {
		b.commit = (*bolt.Tx).Commit
		if !written {
			b.term = 0 // as after a panic of bbolt: a commit that is surely not in the file is no unknown outcome
			return errors.Join(errors.New("input/output error"), tx.Rollback())
		}
		return errors.Join(errors.New("input/output error"), tx.Commit())
	}
}

// Forget drops the history of an engine.
func Forget(e kv.Engine) {
	b := e.(*Engine)
	b.history.reset(b.revision)
}
