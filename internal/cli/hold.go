// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/internal/agent/local"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// Exit codes of hold run for what the command itself cannot say, as shells have them.
const (
	exitNotHeld   = 125 // the pool could not be held; the command was not started
	exitNotRun    = 126 // the command could not be started
	exitNoProgram = 127 // there is no such command
)

// hold is the commands for users of this host: they ask the agent here, and no controller.
func (a *app) hold() *cobra.Command {
	g := group("hold", nil, "Pools on mounts of this host, and who holds them; for root", a.holdList(), a.holdAcquire(), a.holdRelease(), a.holdRun(), a.holdDetach())
	g.PersistentFlags().String("socket", "", "where the agent of this host listens (default $HOLDFAST_SOCKET or "+local.DefaultSocket+")")
	return g
}

// agent returns a client of the agent of this host.
func (a *app) agent(cmd *cobra.Command) *local.Client {
	socket, _ := cmd.Flags().GetString("socket")
	return local.NewClient(cmp.Or(socket, a.env.Getenv("HOLDFAST_SOCKET"), local.DefaultSocket))
}

func (a *app) holdList() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list [STORAGE_POOL]", Aliases: []string{"l", "ls"}, Short: "List who holds the pools on mounts of this host", Args: between(0, 1, "STORAGE_POOL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			form, err := a.form()
			if err != nil {
				return err
			}
			s := &session{app: a, out: a.env.Stdout, form: form}
			pools, err := a.agent(cmd).Pools(cmd.Context())
			if err != nil {
				return err
			}
			shown := []local.Pool{}
			for _, p := range pools {
				if len(args) == 0 || strings.EqualFold(p.Name, args[0]) {
					shown = append(shown, p)
				}
			}
			if len(args) > 0 && len(shown) == 0 {
				return exitError{ExitNotFound, fmt.Errorf("storage pool %s is no pool on a mount of this host", args[0])}
			}
			if form != text {
				body, err := wire.Encode(shown)
				if err != nil {
					return err
				}
				return s.listJSON(body)
			}
			return s.writeTable(a.holdTable(shown))
		},
	}
	return cmd
}

func (a *app) holdTable(pools []local.Pool) *table {
	t := newTable("StoragePool", "State", "Source", "Hold", "Kind", "Holder", "Since", "Note")
	for _, p := range pools {
		note := p.LastError
		if len(p.Blockers) > 0 {
			note = "busy: " + strings.Join(p.Blockers, "; ")
		}
		if len(p.Holds) == 0 {
			t.row(p.Name, heldState(p.State), p.Source, "", "", "", "", note)
		}
		for _, h := range p.Holds {
			t.row(p.Name, heldState(p.State), p.Source, h.ID, h.Kind, h.Holder, a.since(h.Created), cmp.Or(holdNote(h.Waiting, h.Derived, h.ReadOnly, h.Broken, !h.Orphan.IsZero()), note))
		}
	}
	return t
}

func (a *app) since(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.In(a.env.Location).Format(timeLayout)
}

// holdNote is what is special about a hold.
func holdNote(waiting, derived, readOnly bool, broken string, orphan bool) string {
	var notes []string
	for _, n := range []struct {
		is   bool
		text string
	}{{waiting, "not granted yet"}, {derived, "seen, not acquired"}, {readOnly, "read-only"}, {broken != "", "broken: " + broken}, {orphan, "its holder is dead"}} {
		if n.is {
			notes = append(notes, n.text)
		}
	}
	return strings.Join(notes, ", ")
}

// heldState is the state of a pool's source.
func heldState(state string) cell {
	switch state {
	case "ready":
		return cell{state, green}
	case "absent":
		return cell{text: state}
	case "stale", "lost", "foreign", "unknown":
		return cell{state, red}
	default:
		return cell{state, yellow}
	}
}

func (a *app) holdAcquire() *cobra.Command {
	var id, holder string
	var readOnly bool
	cmd := &cobra.Command{
		Use: "acquire STORAGE_POOL", Aliases: []string{"a"}, Short: "Hold a pool until the hold is released, and print where it is", Args: exactly("STORAGE_POOL"),
		Long: "Hold a pool until the hold is released: it is mounted if it has to be, and stays so. The folder of the pool is printed,\nand on the standard error the id of the hold.",
		RunE: func(cmd *cobra.Command, args []string) error {
			user := cmp.Or(holder, a.env.Getenv("SUDO_USER"), a.env.Getenv("USER"), "root")
			g, err := a.agent(cmd).Acquire(cmd.Context(), args[0], local.Request{
				ID: cmp.Or(id, fmt.Sprintf("operator/%s/%d", user, time.Now().UnixNano())), Holder: user, ReadOnly: readOnly,
			})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.env.Stderr, "hold %s: release it with holdfast hold release %s\n", g.ID, g.ID)
			_, wrote := fmt.Fprintln(a.env.Stdout, g.Path)
			return errors.Join(err, wrote)
		},
	}
	cmd.Flags().StringVar(&id, "id", "", "id of the hold; acquiring it again is the same hold (default: a new one)")
	cmd.Flags().StringVar(&holder, "as", "", "who holds it, for others to read (default: the user)")
	cmd.Flags().BoolVar(&readOnly, "read-only", false, "nothing is going to be written")
	return cmd
}

func (a *app) holdRelease() *cobra.Command {
	return &cobra.Command{
		Use: "release ID...", Aliases: []string{"r"}, Short: "Release holds, and print what became of the mounts", Args: between(1, -1, "ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, id := range args {
				r, err := a.agent(cmd).Release(cmd.Context(), id)
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintf(a.env.Stdout, "%s: %s\n", id, printable(r.Outcome)); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func (a *app) holdDetach() *cobra.Command {
	var reason, token string
	cmd := &cobra.Command{
		Use: "detach STORAGE_POOL", Short: "Take a mount from its place, in use or not, when its server does not come back", Args: exactly("STORAGE_POOL"),
		Long: "Take the mount of a pool from its place, in use or not: for a server that does not come back. Calls that wait for it fail;\n" +
			"whoever has files of it open goes on with them, and what he writes may be lost. Holds stay, and are broken until they\n" +
			"are released. Without --token, what is mounted and who holds it is shown, with the token to repeat the command with.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c := a.agent(cmd)
			if token == "" {
				p, err := c.Pool(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if p.Token == "" {
					return exitError{ExitNotFound, fmt.Errorf("storage pool %s is not mounted", args[0])}
				}
				s := &session{app: a, out: a.env.Stdout, form: text}
				return errors.Join(s.writeTable(a.holdTable([]local.Pool{p})),
					usagef("to detach what is mounted at %s, repeat the command with --token %s and a --reason", p.Target, p.Token))
			}
			if reason == "" {
				return usagef("a --reason is wanted: it is logged")
			}
			r, err := c.Detach(cmd.Context(), args[0], reason, token)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.env.Stdout, printable(r.Outcome))
			return err
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the log")
	cmd.Flags().StringVar(&token, "token", "", "of what is mounted, as the command shows it")
	return cmd
}

func (a *app) holdRun() *cobra.Command {
	var readOnly bool
	cmd := &cobra.Command{
		Use: "run STORAGE_POOL -- COMMAND [ARGUMENT...]", Short: "Run a command while a pool is held for it",
		Long: "Run a command while a pool is held for it. The pool is mounted if it has to be, and is held until the process of the\n" +
			"command has ended, however it ends. The exit status is the command's own, whatever becomes of the mount. The\n" +
			"command finds the folder of the pool in $HOLDFAST_POOL.\n\n" +
			fmt.Sprintf("When the pool cannot be held the exit status is %d, when the command cannot be started %d, when there is none %d.", exitNotHeld, exitNotRun, exitNoProgram),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 || cmd.ArgsLenAtDash() != 1 {
				return usagef("a storage pool and a command are wanted: holdfast hold run STORAGE_POOL -- COMMAND")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			program, err := lookUp(args[1], a.env.Getenv("PATH"))
			if err != nil {
				return exitError{exitNoProgram, err}
			}
			return a.become(cmd.Context(), a.agent(cmd), args[0], program, args[1:], readOnly)
		},
	}
	cmd.Flags().BoolVar(&readOnly, "read-only", false, "nothing is going to be written")
	return cmd
}

// become turns this process, to which the hold belongs, into the command. So its status is the command's, and there is nobody between it and its terminal.
func (a *app) become(ctx context.Context, c *local.Client, pool, program string, argv []string, readOnly bool) error {
	g, err := c.Acquire(ctx, pool, local.Request{Holder: strings.Join(argv, " "), ReadOnly: readOnly, Process: true})
	if err != nil {
		return exitError{exitNotHeld, err}
	}
	err = unix.Exec(program, argv, append(os.Environ(), "HOLDFAST_POOL="+g.Path))
	return exitError{exitNotRun, fmt.Errorf("run %s: %w", program, err)} // The hold goes with this process.
}

// lookUp finds a program as shells do.
func lookUp(name, path string) (string, error) {
	if strings.Contains(name, "/") {
		_, err := os.Stat(name)
		return name, err
	}
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("%s: there is no such command", name)
}
