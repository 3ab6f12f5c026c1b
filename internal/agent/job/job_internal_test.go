// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package job

import "testing"

func TestContentRange(t *testing.T) {
	if from, total, ok := contentRange("bytes 5-9/10"); from != 5 || total != 10 || !ok {
		t.Errorf("got %d, %d, %v", from, total, ok)
	}
	for _, text := range []string{"", "bytes", "bytes 5", "bytes 5-9", "bytes 5-9/*", "bytes */10", "bytes 9-5/4", "bytes -1-2/3", "lines 5-9/10"} {
		if from, total, ok := contentRange(text); ok {
			t.Errorf("%q was read as %d of %d", text, from, total)
		}
	}
}

func FuzzContentRange(f *testing.F) {
	f.Add("bytes 5-9/10")
	f.Add("bytes */10")
	f.Fuzz(func(t *testing.T, text string) {
		if from, total, ok := contentRange(text); ok && (from < 0 || total < from) {
			t.Errorf("%q was read as %d of %d", text, from, total)
		}
	})
}

func FuzzParseChecksum(f *testing.F) {
	f.Add("md5:00112233445566778899aabbccddeeff")
	f.Add("sha256:")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseChecksum(text)
		if err == nil && text != "" && len(s.want) != s.new().Size() {
			t.Errorf("%q was taken with %d bytes", text, len(s.want))
		}
	})
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte(`{"status":{"job":{"id":"a","kind":"DOWNLOAD","url":"http://x/","to":{"resource":"db"}},"state":"DONE"}}`))
	f.Add([]byte(`{"status":{}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parseRecord(text)
		if err == nil && checkID(r.status().GetJob().GetId()) != nil {
			t.Errorf("a record of job %q was taken", r.status().GetJob().GetId())
		}
	})
}
