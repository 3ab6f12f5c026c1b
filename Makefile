# Copyright The Holdfast Authors
# SPDX-License-Identifier: Apache-2.0

GO          ?= go
LINT        := bin/golangci-lint
LINT_VERSION := v2.15.0
VERSION     := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT      := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
BUILT       := $(shell date -u +%Y-%m-%dT%H:%M:%SZ)
LDFLAGS     := -s -w -X main.commit=$(COMMIT) -X main.built=$(BUILT)
DATA        ?= /var/lib/holdfast
ETCD        := ./internal/kv/etcdkv ./internal/leader ./internal/database ./internal/controller ./test/ha

.PHONY: build up demo demo-holds demo-ha check test test-etcd soak bench bench-ha bench-scale lab lab-full lab-zfs lab-docs docs-cli man fuzz generate need-go need-tools need-etcd clean

build: need-go ## the binary bin/holdfast, static
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/holdfast ./cmd/holdfast

up: build need-tools ## controller and agent in one process, below $(DATA)
	bin/holdfast up --data $(DATA)

demo: build need-tools ## the main job on real devices, each command shown
	test/demo/demo bin/holdfast

demo-holds: build need-tools ## pools on mounts and their users, on real mounts
	test/demo/holds bin/holdfast

check: need-go $(LINT) ## format, lint, vet, build
	$(GO) build ./...
	$(LINT) run ./...

test: need-go need-tools ## all tests
	$(GO) test -race -shuffle=on ./...

test-etcd: need-go need-tools need-etcd ## the tests that run a real etcd, which make test leaves out where there is none
	HOLDFAST_ETCD=1 $(GO) test -race $(ETCD)

soak: need-go need-tools need-etcd ## controllers through 200 kills, and through faults for 10 minutes, on both engines
	HOLDFAST_ETCD=1 HOLDFAST_KILLS=200 HOLDFAST_SOAK=10m $(GO) test -timeout 60m -v ./test/ha

demo-ha: build need-etcd ## three controllers on three members of etcd, and the leader is killed
	test/demo/ha bin/holdfast

bench-ha: need-go need-etcd ## spawns on etcd, and starts of large databases
	HOLDFAST_ETCD=1 $(GO) test -run '^$$' -bench Spawns -benchtime 5000x ./test/ha
	HOLDFAST_ETCD=1 $(GO) test -run '^$$' -bench ColdStart -benchtime 3x ./test/ha

bench: build need-tools ## rates, latencies, memory, on this machine
	bin/holdfast bench

bench-scale: build need-tools ## a large cluster of simulated hosts against a real controller
	bin/holdfast bench scale

lab: need-go ## the families of tests that need a real kernel, in virtual machines: a choice that takes minutes
	test/lab/lab

lab-full: need-go ## all of their tests
	test/lab/lab --full

lab-zfs: ## ZFS's kernel module for them, once: it takes a quarter of an hour
	test/lab/zfs

lab-docs: need-go ## what the last full runs of the lab proved, into docs/backends.md
	$(GO) run ./test/lab/proven "$${HOLDFAST_LAB:-$${XDG_CACHE_HOME:-$$HOME/.cache}/holdfast-lab}/results" docs/backends.md

fuzz: need-go ## each fuzz target for a while
	tools/fuzz

docs-cli: need-go ## docs/cli, and what the scripts of test/cli show, made from the program
	$(GO) test ./test/cli -update

man: build ## the pages for man, below bin/man
	bin/holdfast pages --form man bin/man

generate: need-go ## the code made from agent.proto
	$(GO) run github.com/bufbuild/buf/cmd/buf@v1.75.0 generate

need-go:
	@command -v $(GO) >/dev/null || { echo 'need: missing go, version 1.26 or later: https://go.dev/dl'; exit 1; }

# The race detector needs a C compiler; the file pools need the tools of their filesystems.
need-tools:
	@tools/need gcc=gcc mkfs.ext4=e2fsprogs mkfs.xfs=xfsprogs mkfs.btrfs=btrfs-progs mount=mount losetup=mount ip=iproute2

# The tests start members of their own; the package's own service is of no use to them.
need-etcd:
	@tools/need etcd=etcd-server curl=curl

$(LINT): Makefile
	GOBIN=$(CURDIR)/bin $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	@touch $@

clean:
	rm -rf bin
