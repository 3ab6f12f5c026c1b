// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/holdfast-storage/holdfast/internal/identity"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// Config is what a Keeper needs to know. Node and Dir are required.
type Config struct {
	Node      string
	Dir       string   // the agent's state folder, which exists
	Addresses []string // of controllers, for joining and renewing

	Token     string // to join with; none when empty
	TokenFile string // a file with such a token, read again each time; none when empty

	Options []grpc.DialOption // of every connection, beside the credentials
	Now     func() time.Time  // nil: time.Now
	Log     *slog.Logger      // nothing is logged when nil
}

// Keeper keeps the identity of a node.
type Keeper struct {
	cfg Config

	mu      sync.Mutex
	joining error // why the host could not join at the last try
}

// New returns a Keeper. It does nothing before Run and Dial are called.
func New(cfg Config) *Keeper {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Keeper{cfg: cfg}
}

// Credential returns the node's credential as it is on disk now.
func (k *Keeper) Credential() (identity.Credential, error) {
	c, _, err := k.load()
	return c, err
}

// load also returns the hash of the token that the credential came from.
func (k *Keeper) load() (identity.Credential, string, error) {
	path := filepath.Join(k.cfg.Dir, Name)
	c, err := k.read(Name)
	if errors.Is(err, fs.ErrNotExist) {
		return identity.Credential{}, "", k.notJoined(path)
	}
	var credential identity.Credential
	if err == nil {
		credential, err = c.credential()
	}
	if err != nil {
		return identity.Credential{}, "", fmt.Errorf("%s cannot be used: %w; put back the right file, or join again: %s",
			path, err, howToJoin(k.cfg.Node))
	}
	if credential.Node.Name.Key() != model.NodeName(k.cfg.Node).Key() {
		return identity.Credential{}, "", fmt.Errorf("%s is of node %s, and this is the agent of node %s; start the agent with --node %s, or join: %s",
			path, credential.Node.Name, k.cfg.Node, credential.Node.Name, howToJoin(k.cfg.Node))
	}
	return credential, c.token, nil
}

func howToJoin(node string) string {
	return "run `holdfast node join-token " + node + "` where the controller's API can be reached, and start this agent with --join TOKEN"
}

func (k *Keeper) notJoined(path string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.joining != nil:
		return fmt.Errorf("this host has not joined yet: %w", k.joining)
	case k.cfg.Token != "":
		return errors.New("this host has not joined yet: it is about to, with the token that was given")
	}
	return fmt.Errorf("this host has not joined yet: there is no %s; %s", path, howToJoin(k.cfg.Node))
}

// Dial makes a connection to a controller that shows the node's credential, read anew at each
// handshake. It fails at once when there is none that can be used.
func (k *Keeper) Dial(address string) (*grpc.ClientConn, error) {
	if _, err := k.Credential(); err != nil {
		return nil, err
	}
	return k.connect(address, grpc.WithTransportCredentials(identity.Transport(k.Credential, k.cfg.Now)))
}

func (k *Keeper) connect(address string, option grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient(address, append([]grpc.DialOption{option}, k.cfg.Options...)...)
}

// Expires returns when the node's certificate stops being good.
func (k *Keeper) Expires() (time.Time, error) {
	c, err := k.Credential()
	if err != nil {
		return time.Time{}, err
	}
	return c.Certificate.NotAfter, nil
}

// token returns the token to join with; false when none was given.
func (k *Keeper) token() (identity.Token, bool, error) {
	text := k.cfg.Token
	if k.cfg.TokenFile != "" {
		b, err := os.ReadFile(k.cfg.TokenFile)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return identity.Token{}, false, fmt.Errorf("read the join token: %w", err)
		case strings.TrimSpace(string(b)) != "":
			text = string(b)
		}
	}
	if text == "" {
		return identity.Token{}, false, nil
	}
	t, err := identity.ParseToken(text)
	if err != nil {
		return t, false, err
	}
	if t.Node.Key() != model.NodeName(k.cfg.Node).Key() {
		return t, false, fmt.Errorf("the join token is for node %s, and this is the agent of node %s; start the agent with --node %s, or %s",
			t.Node, k.cfg.Node, t.Node, "make a token for this node: holdfast node join-token "+k.cfg.Node)
	}
	return t, true, nil
}

// Run joins and renews until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	k.tidy()
	var s state
	for ctx.Err() == nil {
		pause(ctx, k.step(ctx, &s))
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
