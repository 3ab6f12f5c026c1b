// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package walk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What the lab says to this program: where the second host listens, for that host itself; where it is, and the page, for the first one.
const (
	serveVariable = "HOLDFAST_LAB_SERVE"
	peerVariable  = "HOLDFAST_LAB_PEER"
	pageVariable  = "HOLDFAST_LAB_PAGE"
)

// TestMain is the second host, where the lab says so, or runs the tests.
func TestMain(m *testing.M) {
	if address := os.Getenv(serveVariable); address != "" {
		if err := serve(address); err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(m.Run())
}

// host runs commands.
type host interface {
	// run returns all that a command printed, and whether it ended well. A command that ends with " &" goes on after it.
	run(ctx context.Context, command string) (out string, ok bool, err error)
}

// here is this machine.
type here struct{}

func (here) run(ctx context.Context, command string) (string, bool, error) {
	if program, ok := strings.CutSuffix(command, " &"); ok {
		return "", true, background(program)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); err == nil || errors.As(err, &exit) && ctx.Err() == nil {
		return string(out), err == nil, nil
	}
	return string(out), false, fmt.Errorf("%s: %w", command, err)
}

// background starts a program that runs until its machine ends. What it says goes to the results.
func background(program string) error {
	words := strings.Fields(program)
	name := filepath.Base(words[0])
	if len(words) > 1 {
		name += "-" + words[1]
	}
	file, err := os.OpenFile(filepath.Join("/tmp/results", name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	cmd := exec.Command("bash", "-c", "exec "+program)
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }()
	return nil
}

// answer is what the second host says about a command.
type answer struct {
	Out string
	OK  bool
	Err string
}

// silence is how long the second host waits for the next command: the first one may be gone.
const silence = 10 * time.Minute

// serve runs the commands that are posted to an address, until it is told to end.
func serve(address string) error {
	ended := make(chan error, 3)
	idle := time.AfterFunc(silence, func() { ended <- fmt.Errorf("there was no command for %s", silence) })
	mux := http.NewServeMux()
	mux.HandleFunc("POST /run", func(w http.ResponseWriter, r *http.Request) {
		defer idle.Reset(silence)
		command, err := io.ReadAll(r.Body)
		var a answer
		if err == nil {
			a.Out, a.OK, err = here{}.run(r.Context(), string(command))
		}
		if err != nil {
			a.Err = err.Error()
		}
		_ = json.NewEncoder(w).Encode(a)
	})
	mux.HandleFunc("POST /end", func(http.ResponseWriter, *http.Request) { ended <- nil })
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { ended <- server.ListenAndServe() }()
	err := <-ended
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return errors.Join(err, server.Shutdown(ctx))
}

// peer is the second host, at an address.
type peer string

func (p peer) run(ctx context.Context, command string) (string, bool, error) {
	a, err := p.post(ctx, "run", command)
	if err == nil && a.Err != "" {
		err = errors.New(a.Err)
	}
	return a.Out, a.OK, err
}

// end tells the second host that all is done.
func (p peer) end(ctx context.Context) error {
	_, err := p.post(ctx, "end", "")
	return err
}

func (p peer) post(ctx context.Context, what, body string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+string(p)+"/"+what, bytes.NewReader([]byte(body)))
	if err != nil {
		return answer{}, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	var a answer
	if err := json.NewDecoder(res.Body).Decode(&a); err != nil && !errors.Is(err, io.EOF) {
		return answer{}, err
	}
	return a, nil
}
