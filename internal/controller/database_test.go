// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/controller"
	"github.com/holdfast-storage/holdfast/internal/database"
	"github.com/holdfast-storage/holdfast/internal/kv/kvtest"
)

func TestTheDatabaseIsBackedUpAndExportedByTheAPI(t *testing.T) {
	engine, folder := kvtest.NewMemory(), t.TempDir()
	k, err := controller.New(t.Context(), controller.Config{
		Engine: engine, Plaintext: true, Backups: &database.Backups{Engine: engine, Folder: folder},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = k.Close() }()
	h := k.REST.Handler()
	for _, w := range []struct {
		path, body string
		status     int
		says, file string
	}{
		{"/v1/controller/backup/db", `{"backup_name":"mine"}`, 201, "mine.db", "mine.db"},
		{"/v1/controller/backup/db", `{"backup_name":"mine"}`, 500, "already", ""},
		{"/v1/controller/backup/db", `{"backup_name":"../mine"}`, 400, "is not possible for a file", ""},
		{"/v1/controller/backup/db", ``, 201, "asked", ""},
		{"/v1/controller/database/export", `{"backup_name":"all"}`, 201, "all.json", "all.json"},
		{"/v1/controller/database/export", `{"backup_name":"all"}`, 500, "already", ""},
	} {
		a := httptest.NewRecorder()
		h.ServeHTTP(a, httptest.NewRequestWithContext(t.Context(), "POST", w.path, strings.NewReader(w.body)))
		if a.Code != w.status || !strings.Contains(a.Body.String(), w.says) {
			t.Errorf("%s %s answers %d %s", w.path, w.body, a.Code, a.Body)
		}
		if w.file != "" {
			if i, err := os.Stat(filepath.Join(folder, w.file)); err != nil || i.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v", w.file, i, err)
			}
		}
	}
	if r, err := database.CheckPlace(t.Context(), database.Place{File: filepath.Join(folder, "mine.db")}); err != nil || !r.Sound() {
		t.Errorf("the backup: %+v, %v", r, err)
	}
}
