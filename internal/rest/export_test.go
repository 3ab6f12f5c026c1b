// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// What the tests of the edges reach.

// Code is the code of an error.
func Code(e *errs.Error) wire.RetCode { return code(e) }

// NoticeCode is the code of a notice.
func NoticeCode(k errs.NoticeKind, success wire.RetCode) wire.RetCode { return noticeCode(k, success) }

// FilterOf reads a filter.
func FilterOf(f *wire.AutoSelectFilter) model.Filter { return filterOf(f) }

// MaxReports is how many reports are kept.
const MaxReports = maxReports
