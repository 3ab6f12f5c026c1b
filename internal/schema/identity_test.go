// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/holdfast-storage/holdfast/internal/schema"
)

func TestAPrivateKeyIsNeverPrintedOrLogged(t *testing.T) {
	const key = "marker"
	a := schema.Authority{Certificate: []byte("certificate"), PrivateKey: schema.Secret(key)}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		_, _ = fmt.Fprintf(&out, verb+"\n", a)
		_, _ = fmt.Fprintf(&out, verb+"\n", &a)
		_, _ = fmt.Fprintf(&out, verb+"\n", a.PrivateKey)
	}
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("row", "row", a, "key", a.PrivateKey)
	}
	for _, form := range []string{key, "6d61726b6572", "6D61726B6572", "109 97 114", "bWFya2Vy"} {
		if strings.Contains(out.String(), form) {
			t.Errorf("the key is shown as %q in:\n%s", form, out.String())
		}
	}
}
