// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/internal/command"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// layers are what this host can put over its pools.
type layers struct {
	supported   []model.Layer
	unsupported map[model.Layer]string // Why not.
}

// findLayers looks which tools and kernel modules this host has.
func findLayers(ctx context.Context, runner command.Runner) layers {
	l := layers{supported: []model.Layer{model.Storage}, unsupported: map[model.Layer]string{}}
	l.add(model.LUKS, lacksEncryption(ctx, runner))
	l.add(model.DRBD, lacksDRBD(ctx, runner, "/sys"))
	return l
}

// add notes that the host can put a layer over its pools, unless it lacks something for that.
func (l *layers) add(layer model.Layer, lacks string) {
	if lacks != "" {
		l.unsupported[layer] = lacks
		return
	}
	l.supported = append(l.supported, layer)
}

// lacksEncryption says why this host cannot encrypt; empty when it can.
func lacksEncryption(ctx context.Context, runner command.Runner) string {
	if why := fails(ctx, runner, "cryptsetup", "--version"); why != "" {
		return why
	}
	const hint = ": load the module dm_crypt"
	if why := fails(ctx, runner, "dmsetup", "version"); why != "" {
		return why + hint
	}
	able := func() bool {
		out, err := run(ctx, runner, "dmsetup", "targets")
		return err == nil && slices.ContainsFunc(strings.Split(out, "\n"), func(line string) bool { return strings.HasPrefix(line, "crypt ") })
	}
	if able() {
		return ""
	}
	if _, err := run(ctx, runner, "modprobe", "dm_crypt"); err == nil && able() {
		return ""
	}
	return "the kernel has no target crypt of device mapper" + hint
}

// fails says why a program cannot be used; empty when it can.
func fails(ctx context.Context, runner command.Runner, program string, args ...string) string {
	_, err := run(ctx, runner, program, args...)
	if failed, ok := errors.AsType[*command.Error](err); ok && failed.Kind == command.NotInstalled {
		return "the program " + program + " is not installed"
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func run(ctx context.Context, runner command.Runner, program string, args ...string) (string, error) {
	const patience = 10 * time.Second
	out, err := runner.Run(ctx, command.Command{Program: program, Args: args, Limit: patience})
	return string(out.Stdout), err
}
