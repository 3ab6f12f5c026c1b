// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/internal/cli"
)

func TestMistakesInArgumentsEndBeforeAnythingIsSent(t *testing.T) {
	for _, c := range []struct{ line, said string }{
		{"foo", `unknown command "foo"`},
		{"node", "holdfast node needs a command: create, delete"},
		{"node foo", `holdfast node has no command "foo"; it has create, delete`},
		{"sp c", "holdfast storage-pool create needs a command: diskless, file"},
		{"sp c btrfs n1 p x", `has no command "btrfs"`},
		{"n l x", `too many arguments: "x"`},
		{"n l --foo", "unknown flag: --foo"},
		{"n l -Z", "unknown shorthand flag: 'Z'"},
		{"n c", "too few arguments: NAME is missing"},
		{"n c n9 1.1.1.1 -p 70000", "want a port from 1 to 65535"},
		{"n c n9 1.1.1.1 --node-type printer", "want Controller or Auxiliary or Combined or Satellite"},
		{"sp c file n1 p", "too few arguments: DIRECTORY is missing"},
		{"sp c diskless n1 p x", `too many arguments: "x"`},
		{"sp d p", "too few arguments: NAME is missing"},
		{"rg c g --place-count x", `"x": want a whole number from 0`},
		{"rg c g --place-count -1", `"-1": want a whole number from 0`},
		{"rg c g --x-replicas-on-different dc", `--x-replicas-on-different: "dc" has no number`},
		{"rg c g --x-replicas-on-different dc x", `"x": want a whole number from 1`},
		{"rg c -s p g", "too few arguments: NAME is missing"},
		{"rg spawn g r1 1X", `"X" is not a unit`},
		{"rd c", "too few arguments: NAME is missing"},
		{"vd c r1 1.5G", `size "1.5G": ".5G" is not a unit`},
		{"vd c r1 0", "cannot be empty"},
		{"vd c r1 G", "want a whole number and a unit"},
		{"vd c r1 99999999999999P", "larger than 9223372036854775807 bytes"},
		{"vd c r1 -- -5G", "want a whole number and a unit"},
		{"vd size r1 x 1G", `volume number "x"`},
		{"vd d r1 65536", `volume number "65536"`},
		{"r c r1", "name nodes, or let the controller choose with --auto-place"},
		{"r c n1 r1 --auto-place 2", "--auto-place chooses the nodes; n1 cannot be named with it"},
		{"r c r1 --auto-place 0", "want a number of replicas"},
		{"r c r1 --auto-place all --dry-run", "give the number instead of all"},
		{"-o json n evac n1 --dry-run", "--dry-run of an evacuation is a table alone"},
		{"r c n1 r1 -s p1 p2", "a replica lies in one pool, not in p1 and p2"},
		{"v sp n1 r1 x k v", `volume number "x"`},
		{"err d", "name the reports to delete"},
		{"-o xml n l", `output "xml": want text, wide, name, json or yaml`},
		{"-o yaml -m n l", "-m and --output yaml exclude each other"},
		{"nod l", `unknown command "nod"; did you mean node?`},
		{"n lst", `has no command "lst"; did you mean list?`},
		{"-t 0 n l", "timeout 0: want a positive number of seconds"},
		{"-t x n l", `invalid argument "x" for "--timeout"`},
		{"--controllers ftp://x n l", `scheme "ftp" is not http`},
	} {
		t.Run(c.line, func(t *testing.T) {
			f := startController(t)
			got := run(t, at(f.URL), c.line)
			if got.code != cli.ExitUsage || !strings.Contains(got.stderr, c.said) || got.stdout != "" {
				t.Errorf("exit %d, printed %q, said %s", got.code, got.stdout, got.stderr)
			}
			if !strings.Contains(got.stderr, "usage: holdfast") || strings.Count(got.stderr, "error: ") != 1 {
				t.Errorf("said %s", got.stderr)
			}
			if len(f.requests) > 0 {
				t.Errorf("sent %v", f.requests)
			}
		})
	}
}

const refused = `[{"ret_code":20447233,"message":"First.","details":"UUID is: 1"},{"ret_code":-9223372036854774806,"message":"Beware.","cause":"Of\nthis"},` +
	`{"ret_code":-4611686018406940171,"message":"It exists.","cause":"It was made before.","details":"One\nTwo","correction":"Take another name.","error_report_ids":["65A0"],"new_field":"<kept>"}]`

func TestRefusalsArePrintedAsBlocks(t *testing.T) {
	f := startController(t)
	f.status, f.answer = 500, refused
	got := run(t, at(f.URL), "rd c r1")
	if got.code != cli.ExitAPI || got.stderr != "" {
		t.Errorf("exit %d: %s", got.code, got.stderr)
	}
	golden(t, "blocks", got.stdout)
	got = run(t, at(f.URL), "-m rd c r1")
	if got.code != cli.ExitAPI {
		t.Errorf("exit %d: %s", got.code, got.stderr)
	}
	golden(t, "blocks-machine", got.stdout)
}

func TestExitCodes(t *testing.T) {
	const warning = `[{"ret_code":-9223372036854774806,"message":"Beware."}]`
	for _, c := range []struct {
		name, line string
		status     int
		answer     string
		code       int
	}{
		{"done", "n d n1", 200, done, cli.ExitOK},
		{"warning", "n d n1", 200, warning, cli.ExitOK},
		{"warning as error", "--warn-as-error n d n1", 200, warning, cli.ExitAPI},
		{"refused", "n d n1", 500, refused, cli.ExitAPI},
		{"refused with a status of success", "n d n1", 200, refused, cli.ExitAPI},
		{"refused without a word", "n d n1", 500, "[]", cli.ExitAPI},
		{"absent parent of a change", "vd c r1 1G", 404, `[{"ret_code":-4611686018423717587,"message":"No r1."}]`, cli.ExitAPI},
		{"absent object", "n lp nope", 0, "", cli.ExitNotFound},
		{"absent object, JSON", "-m kv s nope", 0, "", cli.ExitNotFound},
		{"absent list", "vg l nope", 0, "", cli.ExitNotFound},
		{"not JSON", "n d n1", 200, "<html>", cli.ExitConnection},
		{"help", "n --help", 0, "", cli.ExitOK},
		{"help of the root", "", 0, "", cli.ExitOK},
		{"help as a command", "help node list", 0, "", cli.ExitOK},
		{"completion", "__complete node l", 0, "", cli.ExitOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := startController(t)
			f.status, f.answer = c.status, c.answer
			got := run(t, at(f.URL), c.line)
			if got.code != c.code {
				t.Errorf("exit %d, want %d\n%s%s", got.code, c.code, got.stdout, got.stderr)
			}
			if c.code == cli.ExitNotFound && !strings.Contains(got.stdout, "It does not exist.") {
				t.Errorf("printed %q", got.stdout)
			}
			if got.code != cli.ExitOK && got.stdout+got.stderr == "" {
				t.Error("nothing was said")
			}
		})
	}
}

func TestNoController(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	got := run(t, at(gone.URL), "n l")
	if got.code != cli.ExitConnection || !strings.Contains(got.stderr, "connection refused") || !strings.Contains(got.stderr, "LS_CONTROLLERS") {
		t.Errorf("exit %d: %s", got.code, got.stderr)
	}
}

func TestSilentController(t *testing.T) {
	env := at("ctrl")
	env.HTTP = &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})}
	if got := run(t, env, "-t 1 n l"); got.code != cli.ExitTimeout || !strings.Contains(got.stderr, "no answer in time") {
		t.Errorf("exit %d: %s", got.code, got.stderr)
	}
}

func TestInterruptedCommandSaysWhatIsKnown(t *testing.T) {
	for line, said := range map[string]string{
		"n l":    "error: interrupted\n",
		"n d n1": "error: interrupted; the request may have been carried out\n",
	} {
		ctx, interrupt := context.WithCancel(t.Context())
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			interrupt()
			<-r.Context().Done()
		}))
		var stderr bytes.Buffer
		env := at(s.URL)
		env.Stdout, env.Stderr = io.Discard, &stderr
		root := &cobra.Command{Use: "holdfast"}
		cli.AddTo(root, env)
		if code := cli.Run(ctx, root, env, words(line)); code != cli.ExitUnknown || stderr.String() != said {
			t.Errorf("%s: exit %d, said %q", line, code, stderr.String())
		}
		s.Close()
	}
}

func TestChangeOfUnknownOutcomeSaysSo(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(s.Close)
	got := run(t, at(s.URL), "n d n1")
	if got.code != cli.ExitConnection || !strings.HasPrefix(got.stderr, "error: no controller answered at ") {
		t.Errorf("exit %d: %s", got.code, got.stderr)
	}
}

func TestSeveralChangesGoOnAfterARefusal(t *testing.T) {
	var calls atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, `[{"ret_code":-4611686018427386907,"message":"In use."}]`)
			return
		}
		_, _ = io.WriteString(w, done)
	}))
	t.Cleanup(s.Close)
	got := run(t, at(s.URL), "rd d r1 r2 r3")
	want := result{cli.ExitAPI, "ERROR: In use.\nSUCCESS: Done.\nSUCCESS: Done.\n", ""}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(result{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	calls.Store(0)
	got = run(t, at(s.URL), "-o json rd d r1 r2")
	if strings.Count(got.stdout, "ret_code") != 2 || !strings.HasPrefix(got.stdout, "[\n  {") || got.code != cli.ExitAPI {
		t.Errorf("exit %d, printed %s", got.code, got.stdout)
	}
}

// closedAfter is an output whose reader goes away.
type closedAfter struct {
	left int
	err  error
}

func (c *closedAfter) Write(p []byte) (int, error) {
	if len(p) > c.left {
		n := c.left
		c.left = 0
		return n, c.err
	}
	c.left -= len(p)
	return len(p), nil
}

func TestReaderThatGoesAwayIsNoError(t *testing.T) {
	f := startController(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"n l", "-m n l", "n d n1", "n info", "c v", "n lp nope"} {
		for name, out := range map[string]io.Writer{"pipe": w, "some": &closedAfter{100, io.ErrClosedPipe}} {
			env := at(f.URL)
			env.Stdout = out
			if got := run(t, env, line); got.code != cli.ExitOK && got.code != cli.ExitNotFound || got.stderr != "" {
				t.Errorf("%s, %s: exit %d: %s", line, name, got.code, got.stderr)
			}
		}
	}
	env := at(f.URL)
	env.Stdout = &closedAfter{10, errors.New("no space left on device")}
	if got := run(t, env, "n l"); got.code != cli.ExitUnknown || !strings.Contains(got.stderr, "no space left") {
		t.Errorf("a full disk: exit %d: %s", got.code, got.stderr)
	}
}

func TestOtherCommandsLiveBelowTheSameRoot(t *testing.T) {
	var stderr bytes.Buffer
	env := cli.Env{Stdout: io.Discard, Stderr: &stderr}
	build := func(end error) *cobra.Command {
		root := &cobra.Command{Use: "holdfast"}
		cli.AddTo(root, env)
		up := &cobra.Command{Use: "up", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			if v, err := cmd.Flags().GetString("config"); err != nil || v != "-x" {
				t.Errorf("config is %q, error %v", v, err)
			}
			return end
		}}
		up.Flags().StringP("config", "t", "", "")
		root.AddCommand(up)
		return root
	}
	for end, want := range map[error]int{nil: 0, errors.New("port is taken"): cli.ExitUnknown, cli.WithExit(7, errors.New("seven")): 7} {
		stderr.Reset()
		if code := cli.Run(t.Context(), build(end), env, []string{"up", "-t", "-x"}); code != want {
			t.Errorf("%v: exit %d", end, code)
		}
		if end != nil && stderr.String() != "error: "+end.Error()+"\n" {
			t.Errorf("said %q", stderr.String())
		}
	}
}
