// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package database_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/internal/database"
	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/boltkv"
	"github.com/holdfast-storage/holdfast/internal/kv/etcdkv"
	"github.com/holdfast-storage/holdfast/internal/kv/etcdkv/etcdtest"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// define adds definitions to a database.
func define(t *testing.T, e kv.Engine, names ...string) {
	t.Helper()
	st, err := store.Open(t.Context(), e, schema.Collections())
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Migrate(t.Context(), st, "test", nil); err != nil {
		t.Fatal(err)
	}
	if err := schema.Bootstrap(t.Context(), st, "00000000-0000-0000-0000-000000000001"); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, err := st.Update(t.Context(), func(tx *store.Tx) error {
			return schema.Definitions.Insert(tx, schema.Definition{
				Name: model.DefinitionName(name), Group: schema.DefaultGroup.Key(), Props: model.PropsOf(map[string]string{"Aux/of": name}),
			})
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
}

// file is a place with a database of some definitions.
func file(t *testing.T, names ...string) database.Place {
	t.Helper()
	p := database.Place{File: filepath.Join(t.TempDir(), "holdfast.db")}
	define(t, boltkv.New(p.File), names...)
	return p
}

// content reads all rows but the store's own.
func content(t *testing.T, p database.Place) map[string]string {
	t.Helper()
	e, err := p.Reader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	rows := map[string]string{}
	_, entries := e.Load(t.Context())
	for entry, err := range entries {
		if err != nil {
			t.Fatal(err)
		}
		rows[entry.Key] = string(entry.Value)
	}
	delete(rows, store.OwnRow(0, store.Origin{}).Key)
	return rows
}

// plant writes rows behind the store's back.
func plant(t *testing.T, p database.Place, put ...kv.Entry) {
	t.Helper()
	e, err := p.Engine()
	if err != nil {
		t.Fatal(err)
	}
	term, err := e.Own(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Append(t.Context(), term, kv.Batch{Put: put}); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

var torn = kv.Entry{Key: "definition/torn\x00", Value: []byte(`{"schema":0,"revi`)}

func TestASoundDatabaseHasNoProblems(t *testing.T) {
	r, err := database.CheckPlace(t.Context(), file(t, "a", "b"))
	if err != nil || !r.Sound() || r.Rows != 4 || r.Revision < 4 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRepairSetsAsideWhatCannotBeUsed(t *testing.T) {
	p := file(t, "a", "b")
	before := content(t, p)
	orphan := `{"revision":3,"row":{"definition":"gone","number":0,"size":4096}}`
	plant(t, p, torn, kv.Entry{Key: "nonsense/x", Value: []byte("1")}, kv.Entry{Key: "volume-definition/gone\x00" + "\x80\x00\x00\x00\x00\x00\x00\x00", Value: []byte(orphan)})
	plan, err := database.PlanRepair(t.Context(), p)
	if err != nil || len(plan.Remove) != 3 || len(plan.Leave) != 0 {
		t.Fatalf("%+v, %v", plan, err)
	}
	if changed := content(t, p); len(changed) != len(before)+3 {
		t.Error("a plan has changed the database")
	}
	folder := t.TempDir()
	done, err := plan.Repair(t.Context(), p, folder, now)
	if err != nil || !done.After.Sound() {
		t.Fatalf("%+v, %v", done, err)
	}
	if got := content(t, p); !maps.Equal(got, before) {
		t.Errorf("after the repair: %v", slices.Sorted(maps.Keys(got)))
	}
	text, err := os.ReadFile(done.Aside)
	var rows []struct {
		Value []byte `json:"stored_value"`
	}
	if err := errors.Join(err, json.Unmarshal(text, &rows)); err != nil || len(rows) != 3 || !bytes.Contains(text, []byte(`"reason"`)) {
		t.Errorf("what was set aside: %s, %v", text, err)
	}
	if r, err := database.CheckPlace(t.Context(), database.Place{File: done.Backup}); err != nil || len(r.Aside) != 3 {
		t.Errorf("the backup shows %+v, %v", r, err)
	}
}

func TestABackupIsTakenWhileTheDatabaseIsInUseAndRestoredLater(t *testing.T) {
	p := file(t, "a")
	st, err := store.Open(t.Context(), boltkv.New(p.File), schema.Collections())
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	engine := boltkv.New(p.File)
	st, err = store.Open(t.Context(), engine, schema.Collections())
	if err != nil {
		t.Fatal(err)
	}
	writing, stop := context.WithCancel(t.Context())
	wrote := make(chan int)
	go func() {
		n := 0
		for ; writing.Err() == nil; n++ {
			_, _ = st.Update(t.Context(), func(tx *store.Tx) error {
				return schema.Definitions.Insert(tx, schema.Definition{Name: model.DefinitionName(fmt.Sprintf("d%d", n)), Group: schema.DefaultGroup.Key()})
			})
		}
		wrote <- n
	}()
	backup := filepath.Join(t.TempDir(), "b.db")
	report, err := database.Backup(t.Context(), engine, backup)
	stop()
	n := <-wrote
	if err != nil || !report.Sound() {
		t.Fatalf("%+v, %v", report, err)
	}
	t.Logf("backup of revision %d, %d definitions written around it", report.Revision, n)
	if _, err := database.Restore(t.Context(), backup, p, now, false); !errors.Is(err, kv.ErrInUse) {
		t.Errorf("a restore under a controller is answered %v", err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	newest := content(t, p)
	done, err := database.Restore(t.Context(), backup, p, now, false)
	if err != nil {
		t.Fatal(err)
	}
	if got := content(t, p); !maps.Equal(got, content(t, database.Place{File: backup})) {
		t.Error("what was restored is not the backup")
	}
	if saved := content(t, database.Place{File: done.Saved}); !maps.Equal(saved, newest) {
		t.Error("what was saved is not the former database")
	}
	if after, _ := database.CheckPlace(t.Context(), p); after.Revision < report.Revision+1000 {
		t.Errorf("the restored database goes on at revision %d: agents may know it", after.Revision)
	}
}

func TestBadBackupsAreRefused(t *testing.T) {
	p := file(t, "a")
	before := content(t, p)
	backup := filepath.Join(t.TempDir(), "b.db")
	e, err := p.Reader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := database.Backup(t.Context(), e, backup); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(backup)
	if err != nil {
		t.Fatal(err)
	}
	unsound := database.Place{File: filepath.Join(t.TempDir(), "u.db")}
	if err := os.WriteFile(unsound.File, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	plant(t, unsound, torn)
	write := func(name string, text []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	empty := filepath.Join(t.TempDir(), "empty.db")
	if _, err := boltkv.Write(empty, 0, func(func(kv.Entry, error) bool) {}); err != nil {
		t.Fatal(err)
	}
	for want, path := range map[string]string{
		"no such file":            filepath.Join(t.TempDir(), "missing"),
		"cut off":                 write("truncated", whole[:3*os.Getpagesize()]),
		"not a bbolt file":        write("other", bytes.Repeat([]byte("text "), 5000)),
		"it is empty":             write("nothing", nil),
		"holds no state":          empty,
		"is not a sound database": unsound.File,
	} {
		if _, err := database.Restore(t.Context(), path, p, now, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if got := content(t, p); !maps.Equal(got, before) {
		t.Error("a refused restore has changed the database")
	}
	if _, err := database.Restore(t.Context(), unsound.File, p, now, true); err != nil {
		t.Errorf("an unsound backup cannot be forced: %v", err)
	}
}

func TestADamagedDatabaseIsReplacedAndKept(t *testing.T) {
	p := file(t, "a")
	e, err := p.Reader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(t.TempDir(), "b.db")
	if _, err := database.Backup(t.Context(), e, backup); err != nil {
		t.Fatal(err)
	}
	_ = e.Close()
	if err := os.WriteFile(p.File, []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := database.CheckPlace(t.Context(), p); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("the check of a damaged file answers %v", err)
	}
	done, err := database.Restore(t.Context(), backup, p, now, false)
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(done.Saved); string(text) != "torn" {
		t.Errorf("the damaged file is kept as %q", text)
	}
}

// export is the export of a place, with a change of its text.
func export(t *testing.T, p database.Place, change ...string) string {
	t.Helper()
	e, err := p.Reader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	var b bytes.Buffer
	if err := database.Export(t.Context(), e, &b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	if len(change) > 0 {
		if !strings.Contains(text, change[0]) {
			t.Fatalf("the export does not hold %q:\n%s", change[0], text)
		}
		text = strings.NewReplacer(change...).Replace(text)
	}
	return text
}

func TestAnExportComesBack(t *testing.T) {
	p := file(t, "a", "b")
	plant(t, p, torn)
	text := export(t, p)
	if !strings.Contains(text, `"unusable"`) || !strings.Contains(text, `Aux/of`) {
		t.Errorf("the export is\n%s", text)
	}
	to := database.Place{File: filepath.Join(t.TempDir(), "new", "holdfast.db")}
	done, err := database.Import(t.Context(), strings.NewReader(text), "the export", to, now)
	if err != nil || !done.Sound() || done.Saved != "" {
		t.Fatalf("%+v, %v", done, err)
	}
	want := content(t, p)
	delete(want, torn.Key)
	got := content(t, to)
	for k := range want {
		var x, y any
		if err := errors.Join(json.Unmarshal([]byte(want[k]), &x), json.Unmarshal([]byte(got[k]), &y)); err != nil || fmt.Sprint(x) != fmt.Sprint(y) {
			t.Errorf("%q came back as %s, was %s", k, got[k], want[k])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d rows came back of %d", len(got), len(want))
	}
}

func TestBadImportsAreRefused(t *testing.T) {
	p := file(t, "alpha", "beta")
	before := content(t, p)
	group := `"` + string(schema.DefaultGroup.Key()) + `"`
	sound := export(t, p)
	var tree map[string]any
	if err := json.Unmarshal([]byte(sound), &tree); err != nil {
		t.Fatal(err)
	}
	rows := tree["rows"].(map[string]any)
	definitions := rows["definition"].([]any)
	rows["definition"] = append(definitions, definitions[0])
	twice, _ := json.Marshal(tree)
	for want, text := range map[string]string{
		"is not a sound database":   export(t, p, `"group": `+group, `"group": "nowhere"`, `"group":`+group, `"group":"nowhere"`),
		"occurs twice":              string(twice),
		"no collection":             export(t, p, `"definition":`, `"defunition":`),
		"not an export of format 1": export(t, p, `"holdfast_export": 1`, `"holdfast_export": 2`),
		"it is not an export":       "[]",
		"unknown field":             `{"holdfast_export":1,"other":2}`,
		"something follows":         sound + "{}",
		"unexpected EOF":            sound[:len(sound)/2],
		"schema generation 99":      export(t, p, fmt.Sprintf(`"generation": %d`, schema.Generation), `"generation": 99`),
	} {
		if _, err := database.Import(t.Context(), strings.NewReader(text), "the export", p, now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	if got := content(t, p); !maps.Equal(got, before) {
		t.Error("a refused import has changed the database")
	}
}

func FuzzImport(f *testing.F) {
	f.Add([]byte(`{"holdfast_export":1,"program":"x","generation":1,"revision":4,"rows":{"group":[{"revision":1,"row":{"name":"g"}}]}}`))
	f.Add([]byte(`{"holdfast_export":1,"rows":{"resource":[{"revision":1,"row":{"definition":"a","node":"b","volumes":[{}]}}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		_, _ = database.Import(t.Context(), bytes.NewReader(text), "fuzz", database.Place{File: filepath.Join(dir, "db")}, now)
	})
}

func TestBackupsRotate(t *testing.T) {
	p := file(t, "a")
	e := boltkv.New(p.File)
	if _, err := e.Own(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	clock := now
	b := &database.Backups{Engine: e, Folder: filepath.Join(t.TempDir(), "backups"), Keep: 3, Now: func() time.Time { return clock }}
	for i := range 6 {
		clock = now.Add(time.Duration(i%2) * -time.Hour).Add(time.Duration(i) * time.Second) // a clock that jumps
		if _, err := b.Make(t.Context(), "automatic"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Make(t.Context(), "before-upgrade"); err != nil {
		t.Fatal(err)
	}
	named, err := b.Named(t.Context(), "mine")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, reason := range database.List(b.Folder) {
		kinds[reason]++
	}
	if kinds["automatic"] != 3 || kinds["before-upgrade"] != 1 || filepath.Base(named) != "mine.db" {
		t.Errorf("kept: %v, %s", kinds, named)
	}
	if n := database.Newest(b.Folder); n == "" {
		t.Error("no newest backup")
	}
	var bad *database.NameError
	for _, name := range []string{"../x", "/etc/x", "a b", "."} {
		if _, err := b.Named(t.Context(), name); !errors.As(err, &bad) {
			t.Errorf("the name %q is answered %v", name, err)
		}
	}
	if _, err := b.Named(t.Context(), "mine"); !errors.Is(err, os.ErrExist) {
		t.Errorf("a name that is taken is answered %v", err)
	}
}

func TestADatabaseMovesToEtcdAndBack(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	var names []string
	for i := range 250 {
		names = append(names, fmt.Sprintf("vol-%d", i))
	}
	from := file(t, names...)
	want := content(t, from)
	there := database.Place{Etcd: etcdkv.Settings{Endpoints: c.Endpoints, Prefix: "/test"}}
	done, err := database.Migrate(t.Context(), from, there, now)
	if err != nil || !done.Sound() {
		t.Fatalf("%+v, %v", done, err)
	}
	if _, err := os.Stat(from.File); !errors.Is(err, os.ErrNotExist) {
		t.Error("a controller could go on with the former file by mistake")
	}
	if got := content(t, there); !maps.Equal(got, want) {
		t.Errorf("%d rows arrived of %d", len(got), len(want))
	}
	second := file(t, "x")
	if _, err := database.Migrate(t.Context(), second, there, now); err == nil || !strings.Contains(err.Error(), "rows already") {
		t.Errorf("a place that is not empty is answered %v", err)
	}
	back := database.Place{File: filepath.Join(t.TempDir(), "back.db")}
	if _, err := database.Migrate(t.Context(), there, back, now); err != nil {
		t.Fatal(err)
	}
	if got := content(t, back); !maps.Equal(got, want) {
		t.Errorf("%d rows came back of %d", len(got), len(want))
	}
}

// A restore into etcd that is broken off leaves a database that no controller takes, and that the next restore mends.
func TestABrokenRestoreIntoEtcdIsRefusedAndDoneAgain(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	there := database.Place{Etcd: etcdkv.Settings{Endpoints: c.Endpoints, Prefix: "/test"}}
	source := file(t, "a", "b", "c")
	e, err := source.Reader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(t.TempDir(), "b.db")
	if _, err := database.Backup(t.Context(), e, backup); err != nil {
		t.Fatal(err)
	}
	_ = e.Close()
	plant(t, there, kv.Entry{Key: store.PartialKey, Value: []byte("the restore of something")})
	if _, err := database.CheckPlace(t.Context(), there); err == nil || !strings.Contains(err.Error(), "the restore of something was not finished") {
		t.Errorf("half a database is answered %v", err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	if _, err := database.Restore(t.Context(), backup, there, now, false); err != nil {
		t.Fatal(err)
	}
	if got := content(t, there); !maps.Equal(got, content(t, source)) {
		t.Error("the second restore is not whole")
	}
}
