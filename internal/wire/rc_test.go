// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-storage/holdfast/internal/wire"
)

func TestEntryIsBuiltFromCopies(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.FixedZone("", 3600))
	base := wire.NewRc(wire.FailInUse, "Resource r1 is in use.").WithRef(wire.RefRscDfn, "r1")
	full := base.WithMask(wire.OpDelete|wire.ObjRsc).WithRef(wire.RefNode, "n1").WithCause("It is mounted.").
		WithDetails("On n1.").WithCorrection("Unmount it.").WithErrorReport("65A0-00000-000001").WithTime(at)
	body, err := wire.Encode(wire.RcList{full})
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"ret_code":-4611686018373647387,"message":"Resource r1 is in use.","cause":"It is mounted.","details":"On n1.",` +
		`"correction":"Unmount it.","error_report_ids":["65A0-00000-000001"],"obj_refs":{"Node":"n1","RscDfn":"r1"},` +
		`"created_at":"2026-03-01T12:00:00+01:00"}]`
	if diff := cmp.Diff(want, string(body)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(wire.NewRc(wire.FailInUse, "Resource r1 is in use.").WithRef(wire.RefRscDfn, "r1"), base); diff != "" {
		t.Errorf("the entry that was built on has changed (-want +got)\n%s", diff)
	}
}

func TestFirstErrorDecidesTheStatus(t *testing.T) {
	for _, c := range []struct {
		name string
		list wire.RcList
		want int
	}{
		{"nothing", nil, 201},
		{"success", codes(wire.Created), 201},
		{"warning and information", codes(wire.WarnNotFound, wire.InfoNoop), 201},
		{"not found", codes(wire.Created, wire.FailNotFoundNode), 404},
		{"last not found", codes(wire.FailNotFoundSchedule), 404},
		{"denied", codes(wire.FailAccDeniedNode), 403},
		{"sign-in", codes(wire.FailSignIn), 403},
		{"no credentials", codes(wire.FailSignInMissingCredentials), 401},
		{"exists", codes(wire.FailExistsRscDfn), 500},
		{"in use", codes(wire.FailInUse), 500},
		{"invalid", codes(wire.FailInvldProp), 500},
		{"parse error", codes(wire.APICallParseError), 400},
		{"unknown call", codes(wire.UnknownAPICall), 404},
		{"authentication required", codes(wire.APICallAuthReq), 401},
		{"first of two", codes(wire.WarnNotFound, wire.FailInUse, wire.FailNotFoundNode), 500},
		{"warning with the number of an error", codes(wire.MaskWarn | 301), 201},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, mask := range []wire.RetCode{0, wire.OpDelete | wire.ObjSchedule} {
				if got := c.list.Finish(mask, time.Time{}).Status(201); got != c.want {
					t.Errorf("got %d, want %d", got, c.want)
				}
			}
		})
	}
}

func codes(all ...wire.RetCode) wire.RcList {
	var list wire.RcList
	for _, c := range all {
		list = append(list, wire.NewRc(c, "m"))
	}
	return list
}

func TestFinishedListIsNeverEmptyAndEntriesAreComplete(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	mask := wire.OpModify | wire.ObjNode
	empty := wire.RcList(nil).Finish(mask, at)
	if len(empty) != 1 || !empty.Has(wire.InfoNoop) || empty[0].CreatedAt != "2026-03-01T12:00:00Z" {
		t.Errorf("an empty list becomes %+v", empty)
	}
	old := wire.NewRc(wire.Deleted|wire.OpDelete|wire.ObjRsc, "old").WithTime(at.Add(-time.Hour))
	in := wire.RcList{old, wire.NewRc(wire.Modified, "new")}
	want := wire.RcList{old, wire.NewRc(wire.Modified|mask, "new").WithTime(at)}
	if diff := cmp.Diff(want, in.Finish(mask, at)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if in[1].RetCode != wire.Modified {
		t.Error("the list that was finished has changed")
	}
}
