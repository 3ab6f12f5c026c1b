// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent"
	"github.com/holdfast-storage/holdfast/internal/agent/backend"
	"github.com/holdfast-storage/holdfast/internal/command"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func asked(provider, name string, devices ...string) *agentpb.CreateBackend {
	return &agentpb.CreateBackend{Provider: provider, Name: name, Devices: devices, RaidLevel: "JBOD"}
}

// kinds are one request for each kind of backend, on the disks hfa and hfb.
func kinds() map[string]*agentpb.CreateBackend {
	return map[string]*agentpb.CreateBackend{
		"LVM":      asked("LVM", "hfgroup", "/dev/hfa", "/dev/hfb"),
		"LVM_THIN": asked("LVM_THIN", "hfgroup/thin", "/dev/hfa", "/dev/hfb"),
		"ZFS":      asked("ZFS", "hftank", "/dev/hfa", "/dev/hfb"),
	}
}

func kindOf(err error) errs.Kind {
	if e := errs.As(err); e != nil {
		return e.Kind
	}
	return errs.Internal
}

func TestFreeDevicesAreListed(t *testing.T) {
	h := newHost("hfa", "hfb")
	h.Disks["/dev/hfb"].Kind = "ext4"
	var s agent.Devices = h.service("")
	got, err := s.List(t.Context())
	want := &agentpb.Device{Path: "/dev/hfa", Size: 2 << 30, Serial: "S/dev/hfa"}
	if err != nil || len(got) != 1 || !proto.Equal(got[0], want) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestBackendsAreMade(t *testing.T) {
	for name, ask := range kinds() {
		t.Run(name, func(t *testing.T) {
			h, dir := newHost("hfa", "hfb", "hfc"), t.TempDir()
			must(t, h.service(dir).CreateBackend(t.Context(), ask))
			switch g := h.Groups["hfgroup"]; name {
			case "ZFS":
				if z := h.Zpools["hftank"]; z == nil || !slices.Equal(z.Disks, ask.GetDevices()) {
					t.Errorf("%+v", z)
				}
			default:
				if g == nil || !slices.Equal(g.PVs, ask.GetDevices()) || (g.LVs["thin"] != "") != (name == "LVM_THIN") {
					t.Errorf("%+v", g)
				}
			}
			if left, _ := filepath.Glob(dir + "/*"); left != nil {
				t.Errorf("a making that is done is still written down: %v", left)
			}
			// Once more, as by a caller who did not get the answer, and by an agent that was started anew.
			made := h.state()
			s := h.service(dir)
			must(t, s.Recover(t.Context()))
			must(t, s.CreateBackend(t.Context(), ask))
			if diff := cmp.Diff(made, h.state()); diff != "" {
				t.Errorf("a repeated call has changed something: %s", diff)
			}
		})
	}
}

func TestWhatIsNotExactlyTheSameIsAnotherBackend(t *testing.T) {
	for _, c := range []struct {
		name      string
		have, ask *agentpb.CreateBackend
		change    func(*host)
	}{
		{"other devices", kinds()["LVM"], asked("LVM", "hfgroup", "/dev/hfa"), nil},
		{"more devices", kinds()["ZFS"], asked("ZFS", "hftank", "/dev/hfa", "/dev/hfb", "/dev/hfc"), nil},
		{"a thin pool in a plain group", kinds()["LVM"], kinds()["LVM_THIN"], nil},
		{"a plain group with a thin pool", kinds()["LVM_THIN"], kinds()["LVM"], nil},
		{"another thin pool", kinds()["LVM_THIN"], kinds()["LVM_THIN"], func(h *host) { h.Groups["hfgroup"].LVs["thin"] = "-wi-a-----" }},
		{"a zpool without reservations", kinds()["ZFS"], asked("ZFS_THIN", "hftank", "/dev/hfa", "/dev/hfb"), nil},
		{"a group of others", kinds()["LVM"], kinds()["LVM"], func(h *host) { h.Groups["hfgroup"].Tags = "theirs" }},
		{"a zpool of others", kinds()["ZFS"], kinds()["ZFS"], func(h *host) { h.Zpools["hftank"].Mark = "-" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost("hfa", "hfb", "hfc")
			s := h.service(t.TempDir())
			must(t, s.CreateBackend(t.Context(), c.have))
			if c.change != nil {
				c.change(h)
			}
			was := h.state()
			err := s.CreateBackend(t.Context(), c.ask)
			if kindOf(err) != errs.Exists || errs.As(err).Cause == "" || errs.As(err).Correction == "" {
				t.Errorf("%v", err)
			}
			if diff := cmp.Diff(was, h.state()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAGroupOfOursGetsTheThinPoolThatItLacks(t *testing.T) {
	h := newHost("hfa", "hfb")
	ask := kinds()["LVM_THIN"]
	s := h.service("")
	must(t, s.CreateBackend(t.Context(), ask))
	made := h.state()
	clear(h.Groups["hfgroup"].LVs)
	must(t, s.CreateBackend(t.Context(), ask))
	if diff := cmp.Diff(made, h.state()); diff != "" {
		t.Error(diff)
	}
}

func TestDevicesThatAreNotFreeAreNamedAndNotTouched(t *testing.T) {
	for _, c := range []struct {
		name  string
		set   func(*part)
		kind  errs.Kind
		words string
	}{
		{"a filesystem", func(p *part) { p.Kind = "ext4" }, errs.InUse, "ext4"},
		{"a physical volume of others", func(p *part) { p.Kind, p.UUID = "LVM2_member", "theirs" }, errs.InUse, "LVM2_member"},
		{"several signatures", func(p *part) { p.Kind = "several" }, errs.InUse, "several"},
		{"a partition table", func(p *part) { p.Table = "gpt" }, errs.InUse, "gpt"},
		{"partitions", func(p *part) { p.Table, p.Types, p.Parts = "gpt", []string{"x"}, []*part{{}} }, errs.InUse, "/dev/hfb1"},
		{"a mount", func(p *part) { p.Mount = "/srv" }, errs.InUse, "/srv"},
		{"a user", func(p *part) { p.Holder = "dm-7" }, errs.InUse, "dm-7"},
		{"too little room", func(p *part) { p.small = true }, errs.InUse, "1073741824"},
	} {
		for provider, ask := range kinds() {
			t.Run(c.name+"/"+provider, func(t *testing.T) {
				h := newHost("hfa", "hfb")
				c.set(h.Disks["/dev/hfb"])
				was := h.state()
				err := h.service(t.TempDir()).CreateBackend(t.Context(), ask)
				if kindOf(err) != c.kind || !strings.Contains(err.Error(), "/dev/hfb") || !strings.Contains(err.Error(), c.words) {
					t.Errorf("%v", err)
				}
				if diff := cmp.Diff(was, h.state()); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

func TestADeviceThatIsTakenMeanwhileStopsTheMaking(t *testing.T) {
	h := newHost("hfa", "hfb")
	h.after = func(_ int, line string) error {
		if strings.HasPrefix(line, "pvcreate") && strings.HasSuffix(line, "/dev/hfa") {
			h.Disks["/dev/hfb"].Kind = "xfs"
		}
		return nil
	}
	err := h.service(t.TempDir()).CreateBackend(t.Context(), kinds()["LVM"])
	if kindOf(err) != errs.InUse || !strings.Contains(err.Error(), "/dev/hfb") {
		t.Errorf("%v", err)
	}
	if a, b := h.Disks["/dev/hfa"].Kind, h.Disks["/dev/hfb"].Kind; a != "" || b != "xfs" {
		t.Errorf("the devices have %q and %q", a, b)
	}
}

func TestRequestsThatCannotBeMadeAreRefusedBeforeAnythingIsLookedAt(t *testing.T) {
	h := newHost("hfa")
	s := backend.New(backend.Config{LVM: programs{h}, ZFS: programs{h}, Unsupported: map[model.Provider]string{model.ZFS: "no module"}})
	raid := asked("LVM", "g", "/dev/hfa")
	raid.RaidLevel = "RAID5"
	for name, c := range map[string]struct {
		ask  *agentpb.CreateBackend
		kind errs.Kind
	}{
		"a provider":         {asked("FILE", "g", "/dev/hfa"), errs.Unsupported},
		"one that is absent": {asked("ZFS", "g", "/dev/hfa"), errs.Unsupported},
		"RAID":               {raid, errs.Invalid},
		"a name":             {asked("LVM", "-f", "/dev/hfa"), errs.Invalid},
		"a zpool's name":     {asked("ZFS", "mirror", "/dev/hfa"), errs.Invalid},
		"no device":          {asked("LVM", "g"), errs.Invalid},
		"an option":          {asked("LVM", "g", "-f"), errs.Invalid},
		"a climbing path":    {asked("LVM", "g", "/dev/../etc/x"), errs.Invalid},
		"a device twice":     {asked("LVM", "g", "/dev/hfa", "/dev/hfa"), errs.Invalid},
	} {
		if err := s.CreateBackend(t.Context(), c.ask); kindOf(err) != c.kind {
			t.Errorf("%s: %v", name, err)
		}
	}
	if h.calls != nil {
		t.Errorf("the host was asked: %q", h.calls)
	}
}

func TestNamesThatTheHostHasAlreadyAreRefused(t *testing.T) {
	h := newHost("hfa")
	err := h.service("").CreateBackend(t.Context(), asked("LVM", "null", "/dev/hfa")) // There is /dev/null.
	if e := errs.As(err); kindOf(err) != errs.Invalid || e.Attr != errs.Name || h.Disks["/dev/hfa"].Kind != "" {
		t.Errorf("%v", err)
	}
	if err := h.service("").CreateBackend(t.Context(), asked("LVM", "g", "/dev/hfz")); kindOf(err) != errs.Invalid {
		t.Errorf("a device that does not exist: %v", err)
	}
}

func TestTwoNamesOfOneDeviceAreOneDevice(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "holdfast") //nolint:usetesting // It has to lie in /dev.
	if err != nil {
		t.Skip("needs a folder in /dev that can be written to: ", err)
	}
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	link := filepath.Join(dir, "link")
	must(t, os.Symlink("/dev/null", link))
	err = newHost().service("").CreateBackend(t.Context(), asked("LVM", "g", "/dev/null", link))
	if kindOf(err) != errs.Invalid || !strings.Contains(err.Error(), "device /dev/null and device "+link+" are the same") {
		t.Errorf("%v", err)
	}
}

func TestOfTwoCallsForOneDeviceOneWins(t *testing.T) {
	h := newHost("hfa", "hfb", "hfc")
	s := h.service(t.TempDir())
	reached, proceed := make(chan struct{}), make(chan struct{})
	h.after = func(_ int, line string) error {
		if strings.HasPrefix(line, "pvcreate") && strings.HasSuffix(line, "hfa") {
			h.mu.Unlock() // The program takes its time; others run meanwhile.
			close(reached)
			<-proceed
			h.mu.Lock()
		}
		return nil
	}
	first := make(chan error, 1)
	go func() { first <- s.CreateBackend(t.Context(), asked("LVM", "one", "/dev/hfa", "/dev/hfb")) }()
	<-reached
	for name, ask := range map[string]*agentpb.CreateBackend{
		"device /dev/hfb": asked("ZFS", "two", "/dev/hfc", "/dev/hfb"),
		"device /dev/hfa": asked("LVM", "one", "/dev/hfa", "/dev/hfb"),
		"one":             asked("LVM", "one", "/dev/hfc"),
	} {
		err := s.CreateBackend(t.Context(), ask)
		if kindOf(err) != errs.InUse || !strings.Contains(err.Error(), name+" is not free") {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, s.CreateBackend(t.Context(), asked("ZFS", "one", "/dev/hfc"))) // It is held up by nothing.
	must(t, s.Recover(t.Context()))                                        // It leaves alone what goes on.
	close(proceed)
	must(t, <-first)
	if len(h.Groups) != 1 || len(h.Zpools) != 1 {
		t.Errorf("groups %v, zpools %v", h.Groups, h.Zpools)
	}
	if err := s.CreateBackend(t.Context(), asked("LVM", "three", "/dev/hfa")); kindOf(err) != errs.InUse {
		t.Errorf("a device that was made something of is claimed again: %v", err)
	}
}

// TestAMakingThatEndsMeanwhileIsNotUndone has one end well after a recovery has read that it goes on.
func TestAMakingThatEndsMeanwhileIsNotUndone(t *testing.T) {
	h, dir := newHost("hfa", "hfb"), t.TempDir()
	h.dieAfter("pvcreate")
	_ = h.service(dir).CreateBackend(t.Context(), asked("LVM", "earlier", "/dev/hfb"))
	record := filepath.Join(dir, "group.earlier.json")
	must(t, os.Rename(record, record+".away")) // So that the next call does not undo it.
	s := h.service(dir)
	made, reached, proceed := make(chan error, 1), make(chan struct{}), make(chan struct{})
	h.before = nil
	h.after = func(_ int, line string) error {
		if strings.HasPrefix(line, "vgcreate") {
			h.mu.Unlock()
			close(reached)
			<-proceed
			h.mu.Lock()
		}
		return nil
	}
	go func() { made <- s.CreateBackend(t.Context(), asked("LVM", "now", "/dev/hfa")) }()
	<-reached
	must(t, os.Rename(record+".away", record))
	h.mu.Lock()
	h.before = func(_ int, line string) error {
		if strings.HasPrefix(line, "lvm pvs") { // The recovery undoes the earlier one, and has read of both.
			h.before = nil
			h.mu.Unlock()
			close(proceed)
			must(t, <-made)
			h.mu.Lock()
		}
		return nil
	}
	h.mu.Unlock()
	must(t, s.Recover(t.Context()))
	if g := h.Groups["now"]; g == nil || len(h.Groups) != 1 || h.Disks["/dev/hfb"].Kind != "" {
		t.Errorf("groups %v", h.Groups)
	}
}

func TestAProgramThatIsMissingIsNamed(t *testing.T) {
	h := newHost("hfa", "hfb")
	was := h.state()
	h.before = func(_ int, line string) error {
		if strings.HasPrefix(line, "lvcreate") {
			return &command.Error{Kind: command.NotInstalled, Program: "lvcreate"}
		}
		return nil
	}
	err := h.service(t.TempDir()).CreateBackend(t.Context(), kinds()["LVM_THIN"])
	if kindOf(err) != errs.Unsupported || !strings.Contains(err.Error(), "lvcreate") {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff(was, h.state()); diff != "" {
		t.Error(diff)
	}
}

var errCrash = errors.New("the agent was killed")

// TestNothingIsLeftOfWhatFailsHalfWay has each program fail in turn, before and after it has done its work, alone or together with
// all that come after it, as when the agent is killed; and kills the next agent at each step of its undoing, too.
func TestNothingIsLeftOfWhatFailsHalfWay(t *testing.T) {
	for name, ask := range kinds() {
		plain := newHost("hfa", "hfb")
		must(t, plain.service(t.TempDir()).CreateBackend(t.Context(), ask))
		made := len(plain.calls)
		for n := 1; n <= made; n++ {
			for _, mode := range []string{"fails", "fails late", "killed", "killed late"} {
				t.Run(fmt.Sprint(name, "/", mode, "/", plain.calls[n-1]), func(t *testing.T) { halfWay(t, ask, n, mode) })
			}
		}
	}
}

func halfWay(t *testing.T, ask *agentpb.CreateBackend, n int, mode string) {
	t.Helper()
	killed := strings.HasPrefix(mode, "killed")
	for again := 0; ; again++ { // The undoing is killed at its step of that number; zero: not at all.
		h, dir := newHost("hfa", "hfb", "hfc"), t.TempDir()
		was := h.state()
		struck := false
		strike := func(late bool) func(int, string) error {
			return func(i int, line string) error {
				due := i == n && late == strings.HasSuffix(mode, "late") || killed && i > n
				if !due || strings.HasPrefix(line, "udevadm") && !killed {
					return nil
				}
				struck = true
				return &command.Error{Kind: command.Exited, Program: line, Code: 5, Err: errCrash}
			}
		}
		h.before, h.after = strike(false), strike(true)
		err := h.service(dir).CreateBackend(t.Context(), ask)
		if !struck {
			return // The program fails anyway when all is well, or nobody minds.
		}
		if err == nil {
			t.Fatalf("the call went well")
		}
		begun := len(h.calls)
		if killed && again > 0 {
			h.before, h.after = nil, func(i int, _ string) error {
				if i >= begun+again {
					return errCrash
				}
				return nil
			}
			_ = h.service(dir).Recover(t.Context())
			begun = len(h.calls) - begun
		}
		h.before, h.after = nil, nil
		s := h.service(dir)
		if killed {
			must(t, s.Recover(t.Context()))
		}
		if diff := cmp.Diff(was, h.state()); diff != "" {
			t.Fatalf("undoing killed at %d: something is left: %s", again, diff)
		}
		must(t, s.CreateBackend(t.Context(), ask))
		if left, _ := filepath.Glob(dir + "/*.json"); left != nil {
			t.Fatalf("still written down: %v", left)
		}
		if !killed || again > 0 && begun < again {
			return
		}
	}
}

func TestWhatOthersHaveMadeSinceIsLeft(t *testing.T) {
	lv := func(h *host) { h.Groups["hfgroup"].LVs["precious"] = "-wi-a-----" }
	for _, c := range []struct {
		name, kind, at string
		meanwhile      func(*host)
		told           string // in the error of the recovery; empty: there is none
	}{
		{"a volume in the group", "LVM", "vgcreate", lv, "precious"},
		{"a volume beside the thin pool", "LVM_THIN", "lvcreate", lv, "precious"},
		{"another group of our physical volumes", "LVM", "pvcreate", func(h *host) { h.Groups["theirs"] = &group{PVs: []string{"/dev/hfa"}} }, ""},
		{"another group of our name", "LVM", "vgcreate", func(h *host) { h.Groups["hfgroup"].Tags = "theirs" }, ""},
		{"a physical volume of others", "LVM", "pvcreate", func(h *host) { h.Disks["/dev/hfa"].UUID = "theirs" }, ""},
		{"a filesystem", "LVM", "pvcreate", func(h *host) { *h.Disks["/dev/hfa"] = part{Kind: "ext4"} }, ""},
		{"a dataset in the zpool", "ZFS", "zpool create", func(h *host) { h.Zpools["hftank"].Sets = []string{"hftank/precious"} }, "precious"},
		{"another zpool of our name", "ZFS", "zpool create", func(h *host) { h.Zpools["hftank"].Mark = "-" }, ""},
		{"another zpool of our name that is away", "ZFS", "zpool create", func(h *host) {
			h.Away["hftank"] = h.Zpools["hftank"]
			h.Away["hftank"].Mark = "-"
			delete(h.Zpools, "hftank")
		}, "others have made"},
		{"a filesystem on a partition", "ZFS", "zpool create", func(h *host) {
			delete(h.Zpools, "hftank")
			for _, d := range []string{"/dev/hfa", "/dev/hfb"} {
				*h.Disks[d].Parts[0] = part{Kind: "ext4"}
			}
		}, ""},
		{"other partitions", "ZFS", "zpool create", func(h *host) {
			delete(h.Zpools, "hftank")
			for _, d := range []string{"/dev/hfa", "/dev/hfb"} {
				h.Disks[d].Types[0] = "0fc63daf-8483-4772-8e79-3d69d8477de4"
			}
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, dir := newHost("hfa", "hfb"), t.TempDir()
			h.dieAfter(c.at)
			if err := h.service(dir).CreateBackend(t.Context(), kinds()[c.kind]); !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			h.before, h.after = nil, nil
			c.meanwhile(h)
			was := h.state()
			s := h.service(dir)
			err := s.Recover(t.Context())
			if (err == nil) != (c.told == "") || err != nil && !strings.Contains(err.Error(), c.told) {
				t.Errorf("the recovery ends with %v", err)
			}
			if diff := cmp.Diff(was, h.state()); diff != "" && !strings.Contains(c.name, "our name that") {
				t.Error(diff)
			}
			if err == nil {
				return
			}
			// It keeps nobody from making something else.
			h.Disks["/dev/hfc"] = &part{}
			must(t, s.CreateBackend(t.Context(), asked("LVM", "hfother", "/dev/hfc")))
		})
	}
}

func TestAZpoolThatTheHostForgotInACrashIsFoundAndUndone(t *testing.T) {
	h, dir := newHost("hfa", "hfb"), t.TempDir()
	was := h.state()
	h.dieAfter("zpool create")
	_ = h.service(dir).CreateBackend(t.Context(), kinds()["ZFS"])
	h.before, h.after = nil, nil
	h.Away["hftank"] = h.Zpools["hftank"]
	delete(h.Zpools, "hftank")
	must(t, h.service(dir).Recover(t.Context()))
	if diff := cmp.Diff(was, h.state()); diff != "" {
		t.Error(diff)
	}
}

func TestADiskThatZFSHasOnlyPartitionedIsWiped(t *testing.T) {
	h, dir := newHost("hfa", "hfb"), t.TempDir()
	was := h.state()
	h.before = func(_ int, line string) error {
		if strings.HasPrefix(line, "zpool create") {
			h.label("/dev/hfa", "")
			h.dieAfter("")
			return errCrash
		}
		return nil
	}
	_ = h.service(dir).CreateBackend(t.Context(), kinds()["ZFS"])
	h.before, h.after = nil, nil
	if h.state() == was {
		t.Fatal("it was not partitioned")
	}
	must(t, h.service(dir).Recover(t.Context()))
	if diff := cmp.Diff(was, h.state()); diff != "" {
		t.Error(diff)
	}
}

func TestADiskThatWasReplacedIsNotWiped(t *testing.T) {
	h, dir := newHost("hfa", "hfb"), t.TempDir()
	h.dieAfter("zpool create")
	_ = h.service(dir).CreateBackend(t.Context(), kinds()["ZFS"])
	h.before, h.after = nil, nil
	delete(h.Zpools, "hftank")
	h.Disks["/dev/hfb"].small = true // Another one is at that place now.
	was := h.Disks["/dev/hfb"].Parts[0].Kind
	must(t, h.service(dir).Recover(t.Context()))
	if now := h.Disks["/dev/hfb"]; len(now.Parts) == 0 || now.Parts[0].Kind != was {
		t.Errorf("it has %+v", now)
	}
	if h.Disks["/dev/hfa"].Table != "" {
		t.Error("the other one was not wiped")
	}
}

func TestARecordThatCannotBeReadIsNamedAndHoldsUpNothing(t *testing.T) {
	h, dir := newHost("hfa", "hfb"), t.TempDir()
	for name, text := range map[string]string{
		"group.a.json": "{", "group.b.json": `{"provider":"LVM","name":"c","token":"x"}`, "zpool.d.json": `{"provider":"ZFS","name":"d"}`,
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	s := h.service(dir)
	err := s.Recover(t.Context())
	for _, name := range []string{"group.a.json", "group.b.json", "zpool.d.json"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, s.CreateBackend(t.Context(), kinds()["LVM"]))
}

func TestWhatCannotBeWrittenDownIsNotBegun(t *testing.T) {
	h := newHost("hfa", "hfb")
	was := h.state()
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	if err := h.service(filepath.Join(file, "dir")).CreateBackend(t.Context(), kinds()["LVM"]); err == nil {
		t.Error("it went well")
	}
	if diff := cmp.Diff(was, h.state()); diff != "" {
		t.Error(diff)
	}
}
