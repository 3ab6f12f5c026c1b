// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/holdfast-storage/holdfast/client"
)

// confirm says what a command will destroy and asks whether to go on, where somebody is there to answer: on a terminal, as
// holdfast, without --yes. Elsewhere it says nothing and returns true: a script is never held up. What has one line for each
// thing that is lost; without any, nothing is asked. It is read only when somebody is asked.
func (s *session) confirm(ctx context.Context, what func(context.Context) ([]string, error)) (bool, error) {
	env := s.app.env
	if s.app.linstor || s.app.globals.yes || s.app.globals.curl || !env.Asks || s.form != text {
		return true, nil
	}
	lines, err := what(ctx)
	if err != nil && !client.IsNotFound(err) { // What does not exist is refused by the command itself, with its own words.
		return false, err
	}
	if len(lines) == 0 {
		return true, nil
	}
	var b strings.Builder
	b.WriteString("This destroys, with all data:\n")
	for _, line := range lines {
		b.WriteString("  " + printable(line) + "\n")
	}
	b.WriteString("Go on? [y/N] ")
	if _, err := io.WriteString(env.Stderr, b.String()); err != nil {
		return false, err
	}
	answer, err := ask(ctx, env.Stdin)
	if err != nil {
		return false, err
	}
	if answer != "y" && answer != "yes" {
		return false, WithExit(ExitUnknown, fmt.Errorf("nothing was done"))
	}
	return true, nil
}

// ask reads a line, as small letters. The end of the input is an empty answer.
func ask(ctx context.Context, from io.Reader) (string, error) {
	answered := make(chan string, 1)
	go func() { // It ends with the input: a terminal cannot be read with a deadline.
		line, _ := bufio.NewReader(from).ReadString('\n') // The end of the input is as good as an empty line.
		answered <- line
	}()
	select {
	case line := <-answered:
		return strings.ToLower(strings.TrimSpace(line)), nil
	case <-ctx.Done():
		return "", WithExit(ExitUnknown, fmt.Errorf("nothing was done"))
	}
}
