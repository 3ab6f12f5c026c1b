// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/internal/doctor"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

// examine is the command that looks at this host. It asks no controller.
func (a *app) examine() *cobra.Command {
	var need list
	cmd := &cobra.Command{
		Use: "doctor", Short: "Show what this host can do for Holdfast, and what it lacks for the rest", Args: nothing,
		Long: "Show which programs, kernel modules, devices and rights this host has, and what that allows. Nothing is changed, and no\n" +
			"controller is asked. -o wide shows all that was looked at.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			form, err := a.form()
			if err != nil {
				return err
			}
			report, err := doctor.Examine(cmd.Context(), a.env.Host)
			if err != nil {
				return err
			}
			s := &session{app: a, out: a.env.Stdout, form: form}
			s.listFlags(cmd)
			missing := lacking(report, need)
			if exitCode(missing) == ExitUsage {
				return missing
			}
			if form != text {
				body, encoding := wire.Encode(report)
				return cmp.Or(encoding, s.writeJSON(body), missing)
			}
			return cmp.Or(s.diagnosis(report), missing)
		},
	}
	tabular(cmd)
	need.addTo(cmd.Flags(), "need", "", "exit with 1 unless the host can do these, such as LVM_THIN, DRBD or ext4")
	return cmd
}

// diagnosis prints a report.
func (s *session) diagnosis(r doctor.Report) error {
	t := newTable("Ability", "Usable", "For", "Lacks")
	t.lined = true
	for _, x := range r.Abilities {
		usable := cell{"yes", green}
		if !x.Usable {
			usable = cell{"no", yellow}
		}
		t.row(x.Name, usable, x.What, strings.Join(x.Lacks, "\n"))
	}
	if err := s.writeTable(t); err != nil || !s.app.style(s.pastable).wide {
		return err
	}
	checks := newTable("Kind", "Name", "State", "Version", "Detail", "What to do")
	for _, c := range r.Checks {
		state := cell{string(c.State), green}
		if c.State != doctor.Present {
			state.color = yellow
		}
		checks.row(string(c.Kind), c.Name, state, c.Version, c.Detail, c.Fix)
	}
	s.groupBy = nil
	return cmp.Or(s.write("\nKernel "+printable(r.Kernel)+"\n"), s.writeTable(checks))
}

// lacking returns the error that ends the command when the host cannot do something that is needed.
func lacking(r doctor.Report, need []string) error {
	var not []string
	for _, name := range need {
		i := slices.IndexFunc(r.Abilities, func(x doctor.Ability) bool { return strings.EqualFold(x.Name, name) })
		if i < 0 {
			return usagef("--need: there is no ability %q; there are %s", name, strings.Join(namesIn(r.Abilities, func(x doctor.Ability) string { return x.Name }), ", "))
		}
		if !r.Abilities[i].Usable {
			not = append(not, r.Abilities[i].Name)
		}
	}
	if len(not) == 0 {
		return nil
	}
	return WithExit(ExitUnknown, fmt.Errorf("this host cannot do %s", strings.Join(not, ", ")))
}
