// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/client"
	"github.com/holdfast-storage/holdfast/internal/wire"
)

func (a *app) errorReport() *cobra.Command {
	return group("error-reports", []string{"err"}, "Reports of faults of the software",
		a.errorReportList(), a.errorReportShow(), a.errorReportDelete())
}

func (a *app) errorReportList() *cobra.Command {
	var (
		nodes, ids list
		full       bool
		when       period
	)
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"l"}, Short: "List error reports", Args: nothing,
		RunE: a.run(func(ctx context.Context, s *session, _ []string) error {
			from, to, err := when.bounds(a.env.Location)
			if err != nil {
				return err
			}
			all, err := s.ErrorReports(ctx, client.ErrorReportFilter{Nodes: nodes, Since: from, To: to})
			if err != nil {
				return err
			}
			all = slices.DeleteFunc(all, func(r client.ErrorReport) bool { return len(ids) > 0 && !slices.Contains(ids, reportID(r)) })
			titles := []string{"Id", "Datetime", "Node", "Exception"}
			if full {
				titles = append(titles, "Location", "Version")
			}
			if s.form != text {
				return s.writeJSON(s.last)
			}
			t := newTable(titles...)
			for _, r := range all {
				row := []any{reportID(r), a.when(&r.ErrorTime), reportSource(r), reportFault(r), reportOrigin(r), r.Version}
				t.row(row[:len(titles)]...)
			}
			return s.list(t)
		}),
	}
	pastable(cmd)
	nodes.addTo(cmd.Flags(), "nodes", "n", "only reports of these nodes")
	ids.addTo(cmd.Flags(), "report-id", "", "only these reports")
	when.addTo(cmd.Flags(), "s", "t")
	cmd.Flags().BoolVarP(&full, "full", "f", false, "show where faults lie, too")
	return cmd
}

// reportID returns the id of a report, which is part of its file name.
func reportID(r client.ErrorReport) string {
	return strings.TrimSuffix(strings.TrimPrefix(r.Filename, "ErrorReport-"), ".log")
}

// reportSource returns who reported: the first letter of the module and the node.
func reportSource(r client.ErrorReport) string {
	if r.Module == "" {
		return r.NodeName
	}
	return r.Module[:1] + "|" + r.NodeName
}

func reportFault(r client.ErrorReport) string {
	if r.Exception == "" || r.ExceptionMessage == "" {
		return cmp.Or(r.Exception, r.ExceptionMessage)
	}
	return r.Exception + ": " + r.ExceptionMessage
}

func reportOrigin(r client.ErrorReport) string {
	where := r.OriginFile
	if r.OriginLine != nil {
		where = fmt.Sprintf("%s:%d", where, *r.OriginLine)
	}
	return strings.TrimSpace(where + " " + r.OriginMethod)
}

func (a *app) errorReportShow() *cobra.Command {
	return &cobra.Command{
		Use: "show ID...", Aliases: []string{"s"}, Short: "Show error reports with their texts", Args: between(1, -1, "ID"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			var all []client.ErrorReport
			for _, id := range args {
				report, err := s.ErrorReport(ctx, id)
				if err != nil {
					return err
				}
				all = append(all, report)
				if s.form != text {
					continue
				}
				if err := s.write(printableText(report.Text)); err != nil {
					return err
				}
			}
			if s.form == text {
				return nil
			}
			body, err := wire.Encode(all)
			if err != nil {
				return err
			}
			return s.listJSON(body)
		}),
	}
}

func (a *app) errorReportDelete() *cobra.Command {
	var nodes list
	var when period
	var fault string
	cmd := &cobra.Command{
		Use: "delete [ID...]", Aliases: []string{"d"}, Short: "Delete error reports", Args: between(0, -1, "ID"),
		RunE: a.run(func(ctx context.Context, s *session, args []string) error {
			if len(args) == 0 && len(nodes) == 0 && fault == "" && when == (period{}) {
				return usagef("name the reports to delete, or say which with --nodes, --since, --to or --exception")
			}
			from, to, err := when.bounds(a.env.Location)
			if err != nil {
				return err
			}
			ask := client.ErrorReportDelete{IDs: args, Nodes: nodes, Exception: fault}
			if !from.IsZero() {
				ask.Since = new(client.Int64(from.UnixMilli()))
			}
			if !to.IsZero() {
				ask.To = new(client.Int64(to.UnixMilli()))
			}
			return s.changed(s.DeleteErrorReports(ctx, ask))
		}),
	}
	nodes.addTo(cmd.Flags(), "nodes", "", "only reports of these nodes")
	cmd.Flags().StringVar(&fault, "exception", "", "only reports of this kind of fault")
	when.addTo(cmd.Flags(), "", "")
	return cmd
}
