// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/internal/cli"
)

// serve answers with what a function says, and counts the calls of each path.
func serve(t *testing.T, answer func(r *http.Request, call int) string) *httptest.Server {
	t.Helper()
	var calls [2]atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := 0
		if r.Method != http.MethodGet {
			kind = 1
		}
		_, _ = io.WriteString(w, answer(r, int(calls[kind].Add(1))))
	}))
	t.Cleanup(s.Close)
	return s
}

// runWith runs the program until ctx ends.
func runWith(ctx context.Context, env cli.Env, line string) result {
	var stdout, stderr bytes.Buffer
	env.Stdout, env.Stderr, env.Location = &stdout, &stderr, time.UTC
	root := &cobra.Command{Use: "holdfast"}
	cli.AddTo(root, env)
	code := cli.Run(ctx, root, env, words(line))
	return result{code, stdout.String(), stderr.String()}
}

func TestWatchPrintsWhatHasChangedUntilItIsInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	s := serve(t, func(_ *http.Request, call int) string {
		if call == 6 {
			interrupt()
		}
		return fmt.Sprintf(`[{"name":"store%d"}]`, (call+1)/2) // Each answer comes twice.
	})
	got := runWith(ctx, at(s.URL), "kv l -o name --watch 0.001")
	if want := "store1\n\nstore2\n\nstore3\n"; got.code != cli.ExitOK || !strings.HasPrefix(want, got.stdout) || !strings.Contains(got.stdout, "store2") || got.stderr != "" {
		t.Errorf("exit %d, printed %q, said %q", got.code, got.stdout, got.stderr)
	}
}

func TestWatchOfATerminalDrawsAnewAndOutlivesAControllerThatIsAway(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	s := serve(t, func(_ *http.Request, call int) string {
		switch call {
		case 1:
			return "<html>"
		case 4:
			interrupt()
		}
		return `[{"name":"kv1"}]`
	})
	env := at(s.URL)
	env.Terminal = true
	got := runWith(ctx, env, "kv l -o name --watch 0.001")
	if got.code != cli.ExitOK || !strings.Contains(got.stdout, "was not answered as a controller does") || !strings.Contains(got.stdout, "\x1b[H\x1b[2Jkv1\n") {
		t.Errorf("exit %d, printed %q", got.code, got.stdout)
	}
}

const begun = `[{"ret_code":20447233,"message":"It has begun.","details":"Job: j9"}]`

func job(state string, done int) string {
	return fmt.Sprintf(`{"id":"j9","kind":"evacuate-node","object":"n1","state":%q,"total":4,"done":%d}`, state, done)
}

func TestJobIsFollowedOnATerminal(t *testing.T) {
	s := serve(t, func(r *http.Request, call int) string {
		switch {
		case r.Method != http.MethodGet:
			return begun
		case call <= 3:
			return job("running", call)
		default:
			return job("done", 4)
		}
	})
	env := at(s.URL)
	env.Asks, env.Poll = true, time.Millisecond
	got := runWith(t.Context(), env, "node evacuate n1")
	if got.code != cli.ExitOK || !strings.HasSuffix(got.stdout, "SUCCESS: evacuate-node of n1 is done: 4 of 4\n") {
		t.Errorf("exit %d, printed %q", got.code, got.stdout)
	}
	bar := "evacuate-node n1  ######..................   25%  1 of 4\n\x1b[1A\x1b[Jevacuate-node n1  ############............   50%  2 of 4\n"
	if !strings.HasPrefix(got.stderr, bar) || !strings.HasSuffix(got.stderr, "\x1b[1A\x1b[J") {
		t.Errorf("drew %q", got.stderr)
	}
	for _, line := range []string{"node evacuate n1 --async", "-o json node evacuate n1"} {
		if got := runWith(t.Context(), env, line); got.code != cli.ExitOK || got.stderr != "" || strings.Contains(got.stdout, "is done") {
			t.Errorf("%s: exit %d, printed %q, drew %q", line, got.code, got.stdout, got.stderr)
		}
	}
}

func TestInterruptedFollowingLeavesTheJobAndSaysHowToSeeItAgain(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	s := serve(t, func(r *http.Request, call int) string {
		if r.Method != http.MethodGet {
			return begun
		}
		if call == 2 {
			interrupt()
		}
		return job("running", 1)
	})
	env := at(s.URL)
	env.Poll = time.Millisecond
	got := runWith(ctx, env, "node evacuate n1 --wait")
	if got.code != cli.ExitUnknown || !strings.Contains(got.stderr, "error: interrupted here; the work goes on: see holdfast job show j9\n") {
		t.Errorf("exit %d, said %q", got.code, got.stderr)
	}
}

func TestJobThatFailsIsSaidInThreeLines(t *testing.T) {
	s := serve(t, func(r *http.Request, _ int) string {
		if r.Method != http.MethodGet {
			return begun
		}
		return strings.Replace(job("failed", 1), `"done":1`, `"done":1,"problems":["n2 is full"]`, 1)
	})
	got := runWith(t.Context(), at(s.URL), "node evacuate n1 --wait")
	want := "error: evacuate-node of n1 has failed\n  why: n2 is full\n  do:  see holdfast job show j9\n"
	if got.code != cli.ExitAPI || got.stderr != want {
		t.Errorf("exit %d, said %q", got.code, got.stderr)
	}
}

func TestResizeShowsEachReplicaWhileItTakesLong(t *testing.T) {
	looked := make(chan struct{}, 8)
	s := serve(t, func(r *http.Request, call int) string {
		if r.Method == http.MethodPut { // It ends once it was looked at.
			<-looked
			<-looked
			return done
		}
		looked <- struct{}{}
		return fmt.Sprintf(`[{"name":"r1","node_name":"n1","volumes":[{"volume_number":0,"usable_size_kib":%d}]},{"name":"r1","node_name":"n22","volumes":[{"volume_number":0,"usable_size_kib":1024,"reports":[{"ret_code":-4611686018427386907,"message":"the pool is full"}]}]}]`, 1024*call)
	})
	env := at(s.URL)
	env.Asks, env.Poll = true, time.Millisecond
	got := runWith(t.Context(), env, "vd set-size r1 0 2M")
	if got.code != cli.ExitOK || got.stdout != "SUCCESS: Done.\n" || !strings.HasPrefix(got.stderr, "n1   has 1 MiB\nn22  the pool is full\n") {
		t.Errorf("exit %d, printed %q, drew %q", got.code, got.stdout, got.stderr)
	}
}

// files is a tree of files by name.
type files map[string]string

func (f files) read(name string) ([]byte, error) {
	if body, ok := f[name]; ok {
		return []byte(body), nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

func TestCredentialsAreShownToTheController(t *testing.T) {
	var authorization string
	s := serve(t, func(r *http.Request, _ int) string {
		authorization = r.Header.Get("Authorization")
		return "[]"
	})
	env := at(s.URL)
	env.ReadFile = files{"token": "abc\n"}.read
	for line, want := range map[string]string{
		"n l":                     "",
		"--token-file token n l":  "Bearer abc",
		"-u me -P secret n l":     "Basic bWU6c2VjcmV0",
		"n l --user me -P secret": "Basic bWU6c2VjcmV0",
	} {
		if got := runWith(t.Context(), env, line); got.code != cli.ExitOK || authorization != want {
			t.Errorf("%s: exit %d, showed %q: %s", line, got.code, authorization, got.stderr)
		}
	}
	for line, said := range map[string]string{
		"--password x n l":                                            "--password is of a user",
		"-u me --token-file token n l":                                "exclude each other",
		"--token-file nothing n l":                                    "file does not exist",
		"--controllers 10.0.0.1 -u me -P x n l":                       "everybody on the way could read the secret",
		"--controllers [::1]:1,linstor://ctrl --token-file token n l": "ctrl is not asked by https",
		"--keyfile k n l":                                             "give --certfile, too",
		"n l --cafile token --controllers https://x":                  "holds no certificate",
	} {
		if got := runWith(t.Context(), env, line); got.code != cli.ExitUsage || !strings.Contains(got.stderr, said) {
			t.Errorf("%s: exit %d, said %q", line, got.code, got.stderr)
		}
	}
}

func TestControllerIsBelievedByItsAuthority(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "[]") }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	env := at(s.URL)
	env.ReadFile = files{"ca.pem": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))}.read
	if got := runWith(t.Context(), env, "n l --cafile ca.pem"); got.code != cli.ExitOK {
		t.Errorf("exit %d: %s", got.code, got.stderr)
	}
	if got := runWith(t.Context(), env, "n l"); got.code != cli.ExitConnection || !strings.Contains(got.stderr, "--cafile") {
		t.Errorf("exit %d: %s", got.code, got.stderr)
	}
}

func TestOptionsComeFromTheFileOfTheLinstorClientAndItsVariables(t *testing.T) {
	f := startController(t)
	vars := map[string]string{"HOME": "/home/me"}
	env := cli.Env{Getenv: func(name string) string { return vars[name] }, ReadFile: files{
		"/home/me/.config/linstor/linstor-client.conf": "# mine\n[global]\ncontrollers = " + f.URL + "\nmachine-readable\nnew-option: x\n[other]\ncontrollers=nowhere\n",
		"/etc/linstor/linstor-client.conf":             "[global]\ncontrollers=nowhere\n",
	}.read}
	if got := runWith(t.Context(), env, "kv l"); got.code != cli.ExitOK || !strings.HasPrefix(got.stdout, "[\n  [") {
		t.Errorf("exit %d, printed %q, said %q", got.code, got.stdout, got.stderr)
	}
	vars["LS_CLIENT_CONTROLLERS"] = "nowhere:1"
	if got := runWith(t.Context(), env, "--controllers "+f.URL+" kv l"); got.code != cli.ExitOK {
		t.Errorf("arguments do not win: exit %d, said %q", got.code, got.stderr)
	}
	env.HTTP = &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) { return nil, fmt.Errorf("asked %s", r.URL.Host) })}
	for line, said := range map[string]string{"kv l": "asked nowhere:1", "--disable-config kv l": "asked nowhere:1"} {
		if got := runWith(t.Context(), env, line); !strings.Contains(got.stderr, said) {
			t.Errorf("%s: said %q", line, got.stderr)
		}
	}
	delete(vars, "LS_CLIENT_CONTROLLERS")
	if got := runWith(t.Context(), env, "--disable-config kv l"); !strings.Contains(got.stderr, "asked localhost:3370") {
		t.Errorf("the file is read all the same: said %q", got.stderr)
	}
	vars["LS_CLIENT_TIMEOUT"] = "soon"
	if got := runWith(t.Context(), env, "kv l"); got.code != cli.ExitUsage || !strings.Contains(got.stderr, `LS_CLIENT_TIMEOUT: timeout "soon"`) {
		t.Errorf("exit %d, said %q", got.code, got.stderr)
	}
}

func TestPassphrasesAreReadFromTheInput(t *testing.T) {
	f := startController(t)
	env := at(f.URL)
	env.Stdin = strings.NewReader("old secret\nnew secret\n")
	if got := runWith(t.Context(), env, "encryption modify-passphrase"); got.code != cli.ExitOK ||
		!strings.HasSuffix(f.requests[0], `{"new_passphrase":"new secret","old_passphrase":"old secret"}`) {
		t.Errorf("exit %d, said %q, sent %v", got.code, got.stderr, f.requests)
	}
	answers := []string{"one", "two"}
	env.Asks = true
	env.Secret = func(context.Context, string) (string, error) {
		answer := answers[0]
		answers = answers[1:]
		return answer, nil
	}
	if got := runWith(t.Context(), env, "e cp"); got.code != cli.ExitUsage || !strings.Contains(got.stderr, "not the same") {
		t.Errorf("exit %d, said %q", got.code, got.stderr)
	}
}

func TestMoveOfADiskIsFollowedByItsJob(t *testing.T) {
	s := serve(t, func(r *http.Request, call int) string {
		switch {
		case r.Method != http.MethodGet:
			return done
		case r.URL.Path != "/v1/jobs" && r.URL.Path != "/v1/jobs/j9":
			t.Errorf("asked %s", r.URL.Path)
			return job("failed", 1)
		case r.URL.Path == "/v1/jobs":
			return `[{"id":"old","kind":"migrate-disk","object":"r11 to n2","state":"running"},{"id":"j9","kind":"migrate-disk","object":"R1 to n2","state":"running"},{"id":"e","kind":"evacuate-node","object":"r1 to n2","state":"running"},{"id":"other","kind":"migrate-disk","object":"r1 to n3","state":"running"}]`
		case call < 4:
			return job("running", call)
		default:
			return job("done", 4)
		}
	})
	env := at(s.URL)
	env.Poll = time.Millisecond
	got := runWith(t.Context(), env, "r td n2 r1 --migrate-from n1 --wait")
	if got.code != cli.ExitOK || !strings.HasSuffix(got.stdout, "is done: 4 of 4\n") {
		t.Errorf("exit %d, printed %q, said %q", got.code, got.stdout, got.stderr)
	}
}

func TestRestoreShowsTheReplicasThatAreFilled(t *testing.T) {
	looked := make(chan struct{}, 8)
	s := serve(t, func(r *http.Request, _ int) string {
		if r.Method == http.MethodPost {
			<-looked
			<-looked
			return done
		}
		looked <- struct{}{}
		return `[{"name":"r2","node_name":"n1","state":{},"volumes":[{"volume_number":0,"state":{"disk_state":"Inconsistent"}}]}]`
	})
	env := at(s.URL)
	env.Asks, env.Poll = true, time.Millisecond
	got := runWith(t.Context(), env, "s r rst --fr r1 --fs s1 --tr r2")
	if got.code != cli.ExitOK || !strings.HasPrefix(got.stderr, "n1  Inconsistent\n") {
		t.Errorf("exit %d, printed %q, drew %q", got.code, got.stdout, got.stderr)
	}
}

func TestWhatCannotBeAskedAboutIsNotDestroyed(t *testing.T) {
	var sent []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = append(sent, r.Method)
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, `[{"ret_code":-4611686018427386907,"message":"the database cannot be read"}]`)
	}))
	t.Cleanup(s.Close)
	for _, line := range []string{"rd d r1", "r d n1 r1", "vd d r1 0", "node lost n1"} {
		env := at(s.URL)
		env.Asks, env.Stdin = true, strings.NewReader("y\n")
		sent = nil
		if got := runWith(t.Context(), env, line); got.code != cli.ExitAPI || !strings.Contains(got.stdout, "the database cannot be read") {
			t.Errorf("%s: exit %d, printed %q, said %q", line, got.code, got.stdout, got.stderr)
		}
		if !slices.Equal(sent, []string{http.MethodGet}) {
			t.Errorf("%s: sent %v", line, sent)
		}
	}
}

func TestWaitingThatIsCutOffInACallSaysWhatItWaitedFor(t *testing.T) {
	asked, ended := make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-ended
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(ended) })
	ctx, interrupt := context.WithCancel(t.Context())
	go func() {
		<-asked
		interrupt()
	}()
	got := runWith(ctx, at(s.URL), "resource-definition wait-sync r1")
	if got.code != cli.ExitUnknown || !strings.Contains(got.stderr, "interrupted here; the work goes on: see holdfast resource list -r r1") {
		t.Errorf("exit %d, said %q", got.code, got.stderr)
	}
	go func() { <-asked }()
	got = runWith(t.Context(), at(s.URL), "resource-definition wait-sync r1 --wait-timeout 1")
	if got.code != cli.ExitTimeout || !strings.Contains(got.stderr, "the replicas of r1 do not hold the same data yet") {
		t.Errorf("exit %d, said %q", got.code, got.stderr)
	}
}
