// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strconv"
	"strings"
)

// RetCode is the number of an API answer: type, operation, object and code in one signed 64-bit mask. Errors and
// warnings are negative numbers, as the API sends them.
type RetCode int64

// Type bits. Every code constant of this package includes its own.
const (
	MaskSuccess RetCode = 0
	MaskInfo    RetCode = 1 << 62
	MaskWarn    RetCode = -1 << 63
	MaskError   RetCode = -1 << 62

	// TypeBits selects the type of a code.
	TypeBits RetCode = -1 << 62
)

// Operation bits.
const (
	OpCreate RetCode = 0x1000000
	OpModify RetCode = 0x2000000
	OpDelete RetCode = 0x3000000

	// OpBits selects the operation of a code.
	OpBits RetCode = 0x3000000
)

// Object bits.
const (
	ObjRemote         RetCode = 0x40000
	ObjBackup         RetCode = 0x80000
	ObjSnapshot       RetCode = 0xC0000
	ObjCtrlConf       RetCode = 0x100000
	ObjStorPool       RetCode = 0x140000
	ObjStorPoolDfn    RetCode = 0x180000
	ObjNetIf          RetCode = 0x1C0000
	ObjVlmConn        RetCode = 0x200000
	ObjRscConn        RetCode = 0x240000
	ObjNodeConn       RetCode = 0x280000
	ObjVlm            RetCode = 0x2C0000
	ObjVlmDfn         RetCode = 0x300000
	ObjRsc            RetCode = 0x340000
	ObjRscDfn         RetCode = 0x380000
	ObjNode           RetCode = 0x3C0000
	ObjKVS            RetCode = 0x400000
	ObjRscGrp         RetCode = 0x440000
	ObjVlmGrp         RetCode = 0x480000
	ObjPhysicalDevice RetCode = 0x4C0000
	ObjExtFiles       RetCode = 0x500000
	ObjSchedule       RetCode = 0x540000

	// ObjBits selects the object of a code.
	ObjBits RetCode = 0x7C0000
)

// CodeBits selects the plain code.
const CodeBits RetCode = 0x7FFF

// Whole values that say that a call was not understood at all.
const (
	UnknownAPICall    = MaskError | 0x0FFFFFFFFFFFFFFF
	APICallAuthReq    = MaskError | 0x0FFFFFFFFFFFFFFE
	APICallParseError = MaskError | 0x0FFFFFFFFFFFFFFD
)

// IsError reports whether the type is error.
func (c RetCode) IsError() bool { return c&TypeBits == MaskError }

// IsWarning reports whether the type is warning.
func (c RetCode) IsWarning() bool { return c&TypeBits == MaskWarn }

// IsInfo reports whether the type is information.
func (c RetCode) IsInfo() bool { return c&TypeBits == MaskInfo }

// IsSuccess reports whether the type is success.
func (c RetCode) IsSuccess() bool { return c&TypeBits == MaskSuccess }

// Code returns the plain number, such as 301 for [FailNotFoundRscDfn].
func (c RetCode) Code() int { return int(c & CodeBits) }

// Is reports whether type and code are those of other. Clients compare these bits alone.
func (c RetCode) Is(other RetCode) bool {
	const compared = TypeBits | CodeBits
	return c&compared == other&compared
}

// special returns the name of a whole value, whose bits mean nothing one by one, or "".
func (c RetCode) special() string {
	if c == UnknownAPICall {
		return "UNKNOWN_API_CALL"
	}
	if c == APICallAuthReq {
		return "API_CALL_AUTH_REQ"
	}
	if c == APICallParseError {
		return "API_CALL_PARSE_ERROR"
	}
	return ""
}

// With adds the operation and object bits of mask where c has none.
func (c RetCode) With(mask RetCode) RetCode {
	if c.special() != "" {
		return c
	}
	if c&OpBits == 0 {
		c |= mask & OpBits
	}
	if c&ObjBits == 0 {
		c |= mask & ObjBits
	}
	return c
}

// Type returns SUCCESS, INFO, WARNING or ERROR.
func (c RetCode) Type() string {
	switch {
	case c.IsError():
		return "ERROR"
	case c.IsWarning():
		return "WARNING"
	case c.IsInfo():
		return "INFO"
	default:
		return "SUCCESS"
	}
}

// Name returns the API's own name of type and code, such as FAIL_NOT_FOUND_RSC_DFN, or "" when it has none.
func (c RetCode) Name() string {
	if name := c.special(); name != "" {
		return name
	}
	_, rest, found := strings.Cut(codeNames, "\n"+c.key()+" ")
	if !found {
		return ""
	}
	name, _, _ := strings.Cut(rest, "\n")
	return name
}

// String returns the API's own name, or type and number where it has none.
func (c RetCode) String() string {
	if name := c.Name(); name != "" {
		return name
	}
	return c.Type() + " " + c.key()[1:]
}

// key is the name of the code in codeNames: the first letter of the type and the number.
func (c RetCode) key() string {
	return c.Type()[:1] + strconv.Itoa(c.Code())
}
