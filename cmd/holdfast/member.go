// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/holdfast-storage/holdfast/internal/config"
	"github.com/holdfast-storage/holdfast/internal/controller"
	"github.com/holdfast-storage/holdfast/internal/database"
	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/etcdkv"
	"github.com/holdfast-storage/holdfast/internal/leader"
	"github.com/holdfast-storage/holdfast/internal/rest"
	"github.com/holdfast-storage/holdfast/internal/telemetry"
)

// databaseFile is the embedded database in the data folder.
const databaseFile = "holdfast.db"

// place is where a controller's database is.
func place(c config.Controller) (database.Place, error) {
	if len(c.Etcd.Endpoints) == 0 {
		return database.Place{File: filepath.Join(c.Data, databaseFile)}, nil
	}
	password, err := c.Etcd.Password()
	if err != nil {
		return database.Place{}, err
	}
	return database.Place{Etcd: etcdkv.Settings{
		Endpoints: c.Etcd.Endpoints, Prefix: c.Etcd.Prefix, CA: c.Etcd.CA, Certificate: c.Etcd.Certificate, Key: c.Etcd.Key,
		User: c.Etcd.User, Password: password,
	}}, nil
}

// backupFolder is where backups of a controller's database are.
func backupFolder(c config.Controller) string {
	return cmp.Or(c.Backups.Folder, filepath.Join(c.Data, "backups"))
}

// backups makes the backups of an engine.
func backups(c config.Controller, e kv.Engine, log *slog.Logger) controller.Backups {
	return &database.Backups{
		Engine: e, Folder: backupFolder(c), Every: time.Duration(c.Backups.Every), Keep: c.Backups.Keep, Log: log,
	}
}

// runController is a controller, alone or one of several, until ctx ends.
func runController(ctx context.Context, c config.Controller, log telemetry.Log) error {
	at, err := place(c)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.Data, 0o700); err != nil {
		// A data folder that cannot be made is no reason not to serve what is in etcd, or what can be read.
		log.Warn("the data folder cannot be made", "error", err)
	}
	clients, err := listen(ctx, "the REST API", c.Listen)
	if err != nil {
		return err
	}
	agents, err := listen(ctx, "the agents", c.AgentListen)
	if err != nil {
		return errors.Join(err, clients.Close())
	}
	m := &controller.Member{
		Config: controller.Config{
			Log: log.Logger, Plaintext: c.Plaintext, Metrics: telemetry.Registry(),
			Setup: rest.Setup{Database: at.String(), Listen: clients.Addr().String(), LogLevel: log.Level},
			Build: rest.Build{Version: version, Commit: commit, Time: built},
		},
		Map: at.Engine, Reader: at.Reader,
		BackupsOf: func(e kv.Engine) controller.Backups { return backups(c, e, log.Logger) },
	}
	if at.File == "" {
		if err := contend(c, at, clients, m); err != nil {
			return errors.Join(err, clients.Close(), agents.Close())
		}
		defer m.Election.Close() //nolint:errcheck // The process ends.
	}
	log.Info("the controller starts", "api", "http://"+clients.Addr().String(), "agents", agents.Addr().String(), "database", at.String())
	tell(log.Logger, daemon.SdNotifyReady)
	defer tell(log.Logger, daemon.SdNotifyStopping)
	if err = m.Serve(ctx, agents, clients); errors.Is(err, kv.ErrCorrupt) {
		if newest := database.Newest(backupFolder(c)); newest != "" {
			err = fmt.Errorf("%w\nThe newest backup is %s; `holdfast db restore` puts it back and keeps the damaged file", err, newest)
		}
	}
	return err
}

// contend makes a member one of several.
func contend(c config.Controller, at database.Place, clients net.Listener, m *controller.Member) error {
	name, err := nodeName(c.Name)
	if err != nil {
		return err
	}
	if !c.Etcd.KeepHistory {
		m.Forget = 30 * time.Minute
	}
	m.Self = leader.Candidate{Name: name, API: cmp.Or(c.Advertise, "http://"+clients.Addr().String())}
	m.Election, err = leader.New(leader.Settings{Etcd: at.Etcd, Self: m.Self, Lease: time.Duration(c.Etcd.Lease), Log: m.Log})
	return err
}
