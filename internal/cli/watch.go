// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// seconds is a flag of a number of seconds that may be left out.
type seconds struct{ value float64 }

// Set reads a number above zero.
func (s *seconds) Set(text string) error {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v > 0) || v > 86400 {
		return usagef("%q: want a number of seconds above 0, of a day at most", text)
	}
	s.value = v
	return nil
}

func (s *seconds) String() string { return strconv.FormatFloat(s.value, 'g', -1, 64) }
func (*seconds) Type() string     { return "[seconds]" }

func (*seconds) takes(taken int, next string) bool {
	_, err := strconv.ParseFloat(next, 64)
	return taken == 0 && err == nil
}

func declareWatch(f *pflag.FlagSet) {
	f.VarPF(&seconds{}, "watch", "", "show it again each 2 seconds, or as many as given, until interrupted").NoOptDefVal = "2"
}

// watchFlag returns how often a command is to be repeated, or 0.
func watchFlag(cmd *cobra.Command) time.Duration {
	if flag := cmd.Flags().Lookup("watch"); flag != nil {
		if s, ok := flag.Value.(*seconds); ok {
			return time.Duration(s.value * float64(time.Second))
		}
	}
	return 0
}

// watch repeats an action until it is interrupted, which is how it is meant to end. A terminal shows the newest answer alone.
// Elsewhere an answer is printed when it differs from the one before. A controller that does not answer for a while is said
// and asked again.
func (a *app) watch(cmd *cobra.Command, args []string, do action, every time.Duration) error {
	const home, clear = "\x1b[H", "\x1b[2J"
	tick := time.NewTicker(every)
	defer tick.Stop()
	last := ""
	for {
		var out bytes.Buffer
		err := a.once(cmd, args, do, &out)
		switch {
		case cmd.Context().Err() != nil:
			return nil
		case exitCode(err) == ExitUsage:
			return err
		case err != nil:
			out.WriteString(a.said(err).lines())
		}
		now := out.String()
		if now != last {
			shown := now
			if a.env.Terminal {
				shown = home + clear + now
			} else if last != "" {
				shown = "\n" + now
			}
			if _, err := io.WriteString(a.env.Stdout, shown); err != nil {
				return err
			}
			last = now
		}
		select {
		case <-tick.C:
		case <-cmd.Context().Done():
			return nil
		}
	}
}
