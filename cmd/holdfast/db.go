// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
	"github.com/holdfast-storage/holdfast/internal/config"
	"github.com/holdfast-storage/holdfast/internal/database"
	"github.com/holdfast-storage/holdfast/internal/kv"
)

// databaseTask is what the commands on a database have in common.
type databaseTask struct {
	settings
}

// readPatience is how long a process that has the database is waited for by commands that only read.
const readPatience = 2 * time.Second

// waiting bounds how long a process that has the database is waited for.
func waiting(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("it was not given up in %s", d))
}

func databaseCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "db", Aliases: []string{"database"}, Short: "Check, repair, back up, restore and move the controller's database",
		Long: "Check, repair, back up, restore and move the controller's database. These commands work on the database itself, on\n" +
			"the controller's host: with --config or --data they find it as the controller does. An embedded database is in use while\n" +
			"its controller runs; `backup` then asks the controller, the others say so.",
		Args: cobra.NoArgs,
	}
	c.AddCommand(checkCommand(), repairCommand(), backupCommand(), restoreCommand(), exportCommand(), importCommand(), migrateCommand())
	return c
}

// flags adds the flags that find the database.
func (t *databaseTask) flags(c *cobra.Command) *cobra.Command {
	t.settings.flags(c)
	c.Flags().StringVar(&t.Controller.Data, "data", "", "folder of the controller's embedded database")
	etcdFlags(c, &t.Controller)
	return c
}

// find returns where the database is.
func (t *databaseTask) find() (database.Place, error) {
	if _, err := t.load(); err != nil {
		return database.Place{}, err
	}
	return place(t.Controller)
}

func checkCommand() *cobra.Command {
	var t databaseTask
	return t.flags(&cobra.Command{
		Use: "check [FILE]", Short: "Check a database or a backup, and change nothing",
		Long: "Check a database or a backup, and change nothing: rows that do not decode, orphans, numbers, reservations. Exit code 10\n" +
			"says that something was found.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := t.find()
			if err != nil {
				return err
			}
			if len(args) > 0 {
				p = database.Place{File: args[0]}
			}
			ctx, cancel := waiting(c.Context(), readPatience+etcdPatience(p))
			defer cancel()
			r, err := database.CheckPlace(ctx, p)
			if err != nil {
				return inUse(err, "or check a backup: holdfast db backup, then holdfast db check FILE")
			}
			out := c.OutOrStdout()
			if err := say(out, "%s: revision %d, written by %s (schema generation %d), %d rows\n",
				p, r.Revision, known(r.Origin.Program), r.Origin.Generation, r.Rows); err != nil {
				return err
			}
			if r.Sound() {
				return say(out, "The database is sound.\n")
			}
			return errors.Join(findings(out, r), errFound)
		},
	})
}

// errFound ends a check that has found something.
var errFound = errors.New("the database is not sound: `holdfast db repair` shows what can be done")

// etcdPatience is the time that etcd is given on top.
func etcdPatience(p database.Place) time.Duration {
	if p.File == "" {
		return 30 * time.Second
	}
	return 0
}

func known(program string) string {
	if program == "" {
		return "an unknown version"
	}
	return program
}

func say(out io.Writer, format string, args ...any) error {
	_, err := fmt.Fprintf(out, format, args...)
	return err
}

// findings lists what a check has found.
func findings(out io.Writer, r database.Report) error {
	for _, a := range r.Aside {
		if err := say(out, "cannot be used: %s %s: %s\n", a.Collection, a.Key, a.Reason); err != nil {
			return err
		}
	}
	for _, p := range r.Problems {
		if err := say(out, "problem: %s\n", p); err != nil {
			return err
		}
	}
	return nil
}

// inUse adds to an error of a database that a process has what else can be done.
func inUse(err error, instead string) error {
	if errors.Is(err, kv.ErrInUse) {
		return fmt.Errorf("%w: stop the controller first, %s", err, instead)
	}
	return err
}

func repairCommand() *cobra.Command {
	var t databaseTask
	var yes bool
	c := t.flags(&cobra.Command{
		Use: "repair", Short: "Show what a repair would do, and do it with --yes",
		Long: "Show what a repair would do, and do it with --yes. Rows that cannot be used are written to a file and taken out of the\n" +
			"database, after a backup of it. Nothing is guessed: what is left needs a person.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := t.find()
			if err != nil {
				return err
			}
			ctx, cancel := waiting(c.Context(), readPatience+etcdPatience(p))
			plan, err := database.PlanRepair(ctx, p)
			cancel()
			if err != nil {
				return inUse(err, "then repair")
			}
			out := c.OutOrStdout()
			if plan.Sound() {
				return say(out, "The database is sound; there is nothing to repair.\n")
			}
			for _, a := range plan.Remove {
				if err := say(out, "set aside: %s %s: %s\n", a.Collection, a.Key, a.Reason); err != nil {
					return err
				}
			}
			for _, p := range plan.Leave {
				if err := say(out, "left as it is, for a person to decide: %s\n", p); err != nil {
					return err
				}
			}
			if !yes {
				return say(out, "Nothing was changed. Run it again with --yes to set aside %d rows.\n", len(plan.Remove))
			}
			done, err := plan.Repair(c.Context(), p, backupFolder(t.Controller), time.Now())
			if err != nil {
				return err
			}
			if len(plan.Remove) > 0 {
				if err := say(out, "The database as it was: %s\nWhat was set aside: %s\n", done.Backup, done.Aside); err != nil {
					return err
				}
			}
			if !done.After.Sound() {
				return errors.Join(findings(out, done.After), errFound)
			}
			return say(out, "The database is sound.\n")
		},
	})
	c.Flags().BoolVar(&yes, "yes", false, "do it")
	return c
}

func backupCommand() *cobra.Command {
	var t databaseTask
	return t.flags(&cobra.Command{
		Use: "backup FILE", Short: "Back up the database, also while its controller runs", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := t.find()
			if err != nil {
				return err
			}
			path, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			ctx, cancel := waiting(c.Context(), readPatience)
			e, err := p.Reader(ctx)
			cancel()
			var r database.Report
			switch {
			case errors.Is(err, kv.ErrInUse):
				r, err = askForBackup(c.Context(), t.Controller, path)
			case err == nil:
				r, err = database.Backup(c.Context(), e, path)
				err = errors.Join(err, e.Close())
			}
			if err != nil {
				return err
			}
			return say(c.OutOrStdout(), "%s: a verified backup of revision %d with %d rows\n", path, r.Revision, r.Rows)
		},
	})
}

func restoreCommand() *cobra.Command {
	var t databaseTask
	var unsound bool
	c := t.flags(&cobra.Command{
		Use: "restore FILE", Short: "Put a backup in the place of the database, which is saved beside", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := t.find()
			if err != nil {
				return err
			}
			done, err := database.Restore(c.Context(), args[0], p, time.Now(), unsound)
			return told(c, "restored from "+args[0], p, done, err)
		},
	})
	c.Flags().BoolVar(&unsound, "unsound", false, "restore a backup with rows that cannot be used, too")
	return c
}

// told says what became of a database that was replaced.
func told(c *cobra.Command, how string, p database.Place, done database.Replaced, err error) error {
	if err != nil {
		return err
	}
	out := c.OutOrStdout()
	if done.Saved != "" {
		if err := say(out, "The former database: %s\n", done.Saved); err != nil {
			return err
		}
	}
	return say(out, "%s was %s: %d rows, going on at revision %d\n", p, how, done.Rows, done.Revision)
}

func exportCommand() *cobra.Command {
	var t databaseTask
	return t.flags(&cobra.Command{
		Use: "export FILE", Short: "Write the database as JSON, with its secrets", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := t.find()
			if err != nil {
				return err
			}
			ctx, cancel := waiting(c.Context(), readPatience)
			e, err := p.Reader(ctx)
			cancel()
			if err != nil {
				return inUse(err, "or export a backup: holdfast db export --data with a folder that holds it as "+databaseFile)
			}
			if err := errors.Join(database.ExportFile(c.Context(), e, args[0]), e.Close()); err != nil {
				return err
			}
			return say(c.OutOrStdout(), "%s: the whole database, with its secrets\n", args[0])
		},
	})
}

func importCommand() *cobra.Command {
	var t databaseTask
	return t.flags(&cobra.Command{
		Use: "import FILE", Short: "Put an export in the place of the database, which is saved beside", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := t.find()
			if err != nil {
				return err
			}
			f, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer f.Close() //nolint:errcheck // Nothing was written.
			done, err := database.Import(c.Context(), f, args[0], p, time.Now())
			return told(c, "imported from "+args[0], p, done, err)
		},
	})
}

func migrateCommand() *cobra.Command {
	var t databaseTask
	var file string
	c := t.flags(&cobra.Command{
		Use: "migrate to-etcd|to-file", Short: "Move the database between its file and etcd, offline and verified",
		Long: "Move the database between the file in the data folder and etcd, while no controller runs. The target must be empty, and what\n" +
			"arrives is compared. The file is renamed afterwards, so that no controller goes on with it by mistake.",
		Args: cobra.ExactArgs(1), ValidArgs: []string{"to-etcd", "to-file"},
		RunE: func(c *cobra.Command, args []string) error {
			inEtcd, err := t.find()
			if err != nil {
				return err
			}
			if inEtcd.File != "" {
				return errors.New("say which etcd, with --etcd or in the configuration file")
			}
			inFile := database.Place{File: file}
			if file == "" {
				inFile.File = filepath.Join(t.Controller.Data, databaseFile)
			}
			from, to := inFile, inEtcd
			switch args[0] {
			case "to-etcd":
			case "to-file":
				from, to = inEtcd, inFile
			default:
				return fmt.Errorf("%q is no direction: say to-etcd or to-file", args[0])
			}
			done, err := database.Migrate(c.Context(), from, to, time.Now())
			if err != nil {
				return inUse(err, "then migrate")
			}
			return told(c, "migrated from "+from.String(), to, done, nil)
		},
	})
	c.Flags().StringVar(&file, "file", "", "the file, when it is not the one in the data folder")
	return c
}

// askForBackup lets the running controller make a backup, and puts it where it was asked for.
func askForBackup(ctx context.Context, c config.Controller, path string) (database.Report, error) {
	api, err := client.New([]string{"http://" + c.Listen})
	if err != nil {
		return database.Report{}, err
	}
	name := "for-" + time.Now().UTC().Format("20060102T150405.000000000Z")
	if _, err := api.BackupDatabase(ctx, name); err != nil {
		return database.Report{}, fmt.Errorf("the database is in use, and the controller at %s made no backup: %w", c.Listen, err)
	}
	made := filepath.Join(backupFolder(c), name+".db")
	r, err := database.CopyBackup(ctx, made, path)
	return r, errors.Join(err, os.Remove(made))
}
