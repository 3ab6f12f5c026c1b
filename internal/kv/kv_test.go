// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package kv_test

import (
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/kv"
)

func TestCheckSaysWhichRuleABatchBreaks(t *testing.T) {
	rows := make([]kv.Entry, kv.MaxRows)
	for i := range rows {
		rows[i].Key = strings.Repeat("k", i+1)
	}
	for _, c := range []struct {
		batch kv.Batch
		want  string // empty: taken
	}{
		{kv.Batch{}, ""},
		{kv.Batch{Put: rows}, ""},
		{kv.Batch{Put: rows, Delete: []string{"x"}}, "batch refused: too many rows (101, at most 100)"},
		{kv.Batch{Put: []kv.Entry{{Key: "k", Value: make([]byte, kv.MaxBytes-1)}}}, ""},
		{kv.Batch{Put: []kv.Entry{{Key: "k", Value: make([]byte, kv.MaxBytes)}}}, "batch refused: too many bytes (1048577, at most 1048576)"},
		{kv.Batch{Delete: []string{""}}, "batch refused: empty key (0, at most 4096)"},
		{kv.Batch{Delete: []string{strings.Repeat("k", kv.MaxKey)}}, ""},
		{
			kv.Batch{Delete: []string{strings.Repeat("k", kv.MaxKey+1)}},
			`batch refused: key too long (4097, at most 4096) at key "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"`,
		},
		{kv.Batch{Put: []kv.Entry{{Key: "a"}}, Delete: []string{"a"}}, `batch refused: key named twice (2, at most 1) at key "a"`},
	} {
		got := ""
		if err := c.batch.Check(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%d rows of %d bytes: %q, want %q", c.batch.Rows(), c.batch.Bytes(), got, c.want)
		}
	}
}
