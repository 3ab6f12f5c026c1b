// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/wire"
)

func TestRetCodesAreTheNumbersThatTheAPISends(t *testing.T) {
	for _, c := range []struct {
		what string
		code wire.RetCode
		want int64
	}{
		{"resource definition created", wire.Created | wire.OpCreate | wire.ObjRscDfn, 20447233},
		{"spawn succeeded", wire.Created | wire.OpCreate | wire.ObjRscGrp, 21233665},
		{"resource definition not found", wire.FailNotFoundRscDfn | wire.ObjRscDfn, -4611686018423717587},
		{"resource definition exists", wire.FailExistsRscDfn | wire.OpCreate | wire.ObjRscDfn, -4611686018406940171},
		{"not enough nodes", wire.FailNotEnoughNodes | wire.OpCreate | wire.ObjRsc, -4611686018407201820},
		{"delete of a missing resource definition", wire.WarnNotFound | wire.OpDelete | wire.ObjRscDfn, -9223372036800771144},
	} {
		t.Run(c.what, func(t *testing.T) {
			body, err := wire.Encode(wire.NewRc(c.code, ""))
			if err != nil {
				t.Fatal(err)
			}
			want := fmt.Sprintf(`{"ret_code":%d,"message":""}`, c.want)
			if string(body) != want {
				t.Errorf("got %s, want %s", body, want)
			}
			var back wire.Rc
			if err := json.Unmarshal(body, &back); err != nil || back.RetCode != c.code {
				t.Errorf("read back as %d, error %v", back.RetCode, err)
			}
		})
	}
}

// listed is a line of the list of codes: type letter, number, the API's name, the Go name.
type listed struct {
	letter string
	number int
	name   string
	goName string
}

func listedCodes(t *testing.T) []listed {
	t.Helper()
	text, err := os.ReadFile("testdata/retcodes.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []listed
	for line := range strings.Lines(string(text)) {
		var l listed
		if _, err := fmt.Sscan(line, &l.letter, &l.number, &l.name, &l.goName); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		all = append(all, l)
	}
	return all
}

func TestEveryListedCodeHasItsConstant(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	type value struct {
		mask   string
		number int
	}
	constants := map[string]value{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			sum := spec.Values[0].(*ast.BinaryExpr)
			number, _ := strconv.Atoi(sum.Y.(*ast.BasicLit).Value)
			constants[spec.Names[0].Name] = value{sum.X.(*ast.Ident).Name, number}
		}
		return true
	})
	masks := map[string]string{"S": "MaskSuccess", "I": "MaskInfo", "W": "MaskWarn", "E": "MaskError"}
	for _, l := range listedCodes(t) {
		if got, want := constants[l.goName], (value{masks[l.letter], l.number}); got != want {
			t.Errorf("%s is %v, want %v", l.goName, got, want)
		}
		delete(constants, l.goName)
	}
	if len(constants) > 0 {
		t.Errorf("not in the list: %v", constants)
	}
}

func TestCodesHaveTheirNamesWhateverOperationAndObject(t *testing.T) {
	masks := map[string]wire.RetCode{"S": wire.MaskSuccess, "I": wire.MaskInfo, "W": wire.MaskWarn, "E": wire.MaskError}
	seen := map[string]bool{}
	for _, l := range listedCodes(t) {
		key := fmt.Sprint(l.letter, l.number)
		if seen[key] {
			continue // The second name of a number that the API uses twice.
		}
		seen[key] = true
		code := masks[l.letter] | wire.RetCode(l.number) | wire.OpDelete | wire.ObjNode
		if got := code.Name(); got != l.name {
			t.Errorf("%s %d is named %q, want %q", l.letter, l.number, got, l.name)
		}
		if code.Code() != l.number {
			t.Errorf("%s: code %d, want %d", l.name, code.Code(), l.number)
		}
	}
	for code, want := range map[wire.RetCode]string{
		wire.UnknownAPICall:    "UNKNOWN_API_CALL",
		wire.APICallParseError: "API_CALL_PARSE_ERROR",
		wire.MaskError | 77:    "ERROR 77",
		wire.MaskSuccess:       "SUCCESS 0",
	} {
		if got := code.String(); got != want {
			t.Errorf("%d prints as %q, want %q", code, got, want)
		}
	}
}

func TestTypesAreToldApart(t *testing.T) {
	for _, c := range []struct {
		code                     wire.RetCode
		name                     string
		success, info, warn, err bool
	}{
		{wire.Created | wire.OpCreate, "SUCCESS", true, false, false, false},
		{wire.InfoNoop | wire.ObjNode, "INFO", false, true, false, false},
		{wire.WarnNotFound | wire.OpDelete, "WARNING", false, false, true, false},
		{wire.FailInUse | wire.ObjRsc, "ERROR", false, false, false, true},
		{wire.UnknownAPICall, "ERROR", false, false, false, true},
	} {
		got := []any{c.code.Type(), c.code.IsSuccess(), c.code.IsInfo(), c.code.IsWarning(), c.code.IsError()}
		want := []any{c.name, c.success, c.info, c.warn, c.err}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%d: got %v, want %v", c.code, got, want)
		}
	}
}

func TestMaskIsAddedOnlyWhereThereIsNone(t *testing.T) {
	mask := wire.OpDelete | wire.ObjRsc
	for _, c := range []struct{ in, want wire.RetCode }{
		{wire.Deleted, wire.Deleted | wire.OpDelete | wire.ObjRsc},
		{wire.Deleted | wire.ObjNode, wire.Deleted | wire.OpDelete | wire.ObjNode},
		{wire.Deleted | wire.OpModify, wire.Deleted | wire.OpModify | wire.ObjRsc},
		{wire.APICallParseError, wire.APICallParseError},
		{wire.UnknownAPICall, wire.UnknownAPICall},
	} {
		if got := c.in.With(mask); got != c.want {
			t.Errorf("%x becomes %x, want %x", c.in, got, c.want)
		}
	}
}
