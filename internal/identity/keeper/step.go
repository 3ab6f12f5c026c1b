// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/identity"
	"github.com/holdfast-storage/holdfast/internal/model"
)

// The times between two looks, and the bounds of the pauses after failures.
const (
	idle       = time.Hour       // with a credential
	waiting    = 2 * time.Second // without one, or while a token may come in a file
	joinFirst  = time.Second
	joinMost   = 30 * time.Second
	renewFirst = time.Minute
	renewMost  = time.Hour
	call       = 15 * time.Second
)

// state is what Run knows from one look to the next.
type state struct {
	refused   string    // hash of the token that was refused for good
	refusedAt time.Time // it is tried again after a long while all the same
	failures  int       // in a row
	retry     time.Time // of renewing
	logged    string
}

// step looks once at what there is to do, does it, and returns when to look again.
func (k *Keeper) step(ctx context.Context, s *state) time.Duration {
	credential, from, err := k.load()
	have := err == nil
	token, given, err := k.token()
	switch {
	case err != nil:
		k.joinedNot(err)
		k.failed(s, "the host cannot join", err)
	case given && (!have || from != token.Hash()) && !s.resting(token, k.cfg.Now()):
		err := k.join(ctx, token)
		k.joinedNot(err)
		if err != nil {
			k.failed(s, "the host could not join", err)
			if wait := s.joinFailed(token, err, k.cfg.Now()); wait > 0 {
				return wait
			}
			break
		}
		*s = state{}
		return waiting
	case have && !k.cfg.Now().Before(credential.Due()) && !k.cfg.Now().Before(s.retry):
		k.keepFresh(ctx, s, credential, from)
	}
	return k.rest(s, credential, have)
}

// rest is how long there is nothing to do.
func (k *Keeper) rest(s *state, credential identity.Credential, have bool) time.Duration {
	if !have || k.cfg.TokenFile != "" {
		return waiting
	}
	at := credential.Due()
	if at.Before(s.retry) {
		at = s.retry
	}
	return min(idle, max(waiting, at.Sub(k.cfg.Now())))
}

// keepFresh renews a credential that is due. Success, too, is followed by a pause: to a clock
// that is far ahead every certificate looks old.
func (k *Keeper) keepFresh(ctx context.Context, s *state, old identity.Credential, token string) {
	err := k.renew(ctx, old, token)
	if err == nil {
		*s = state{retry: k.cfg.Now().Add(renewMost)}
		return
	}
	s.retry = k.cfg.Now().Add(doubled(renewFirst, renewMost, s.failures))
	s.failures++
	left := old.Certificate.NotAfter.Sub(k.cfg.Now()).Round(time.Hour)
	k.failed(s, "the node's certificate could not be renewed", fmt.Errorf("%w; it is good for %s more", err, left))
}

// joinedNot remembers for Dial why the host could not join.
func (k *Keeper) joinedNot(why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.joining = why
}

// resting tells whether a token was refused not long ago.
func (s *state) resting(t identity.Token, now time.Time) bool {
	const rest = 10 * time.Minute
	return s.refused == t.Hash() && now.Before(s.refusedAt.Add(rest))
}

// joinFailed notes that a host could not join, and returns when to try again: 0 for not soon,
// as the token was refused for good.
func (s *state) joinFailed(token identity.Token, err error, now time.Time) time.Duration {
	switch status.Code(err) {
	case codes.Unauthenticated, codes.PermissionDenied, codes.InvalidArgument:
		s.refused, s.refusedAt, s.failures = token.Hash(), now, 0
		return 0
	default:
		s.failures++
		return doubled(joinFirst, joinMost, s.failures-1)
	}
}

// failed logs a failure unless it is the one before again.
func (k *Keeper) failed(s *state, what string, err error) {
	if text := what + ": " + err.Error(); text != s.logged {
		s.logged = text
		k.cfg.Log.Warn(what, "node", k.cfg.Node, "error", err)
	}
}

func doubled(first, most time.Duration, failures int) time.Duration {
	for range failures {
		if first *= 2; first >= most {
			return most
		}
	}
	return first
}

// join makes this host the agent of the node of a token.
func (k *Keeper) join(ctx context.Context, token identity.Token) error {
	key, err := k.joiningKey(token)
	if err != nil {
		return fmt.Errorf("keep the new key in %s: %w", k.cfg.Dir, err)
	}
	request, err := identity.Request(key)
	if err != nil {
		return err
	}
	trust := grpc.WithTransportCredentials(identity.Pinned(token.Fingerprint, k.cfg.Now))
	answer, err := k.ask(ctx, trust, func(ctx context.Context, c agentpb.IdentityClient) (*agentpb.Certified, error) {
		return c.Join(ctx, &agentpb.JoinRequest{Node: k.cfg.Node, Secret: token.Secret, Request: request})
	})
	if err != nil {
		return err
	}
	credential, err := k.take(key, answer, token.Hash())
	if err != nil {
		return err
	}
	k.cfg.Log.Info("this host has joined", "node", credential.Node.Name, "until", credential.Certificate.NotAfter)
	if err := os.Remove(filepath.Join(k.cfg.Dir, joiningName)); err != nil {
		k.cfg.Log.Warn("the key of the joining is left", "error", err)
	}
	return nil
}

// joiningKey returns the key to join with: the same for the same token, also after a restart,
// because an answer that was lost can be asked for again with it alone.
func (k *Keeper) joiningKey(token identity.Token) (*ecdsa.PrivateKey, error) {
	if c, err := k.read(joiningName); err == nil && c.token == token.Hash() {
		return c.key, nil
	}
	key, err := identity.NewKey()
	if err != nil {
		return nil, err
	}
	return key, k.write(joiningName, content{key: key, token: token.Hash()})
}

// renew replaces the credential by one with a new key.
func (k *Keeper) renew(ctx context.Context, old identity.Credential, token string) error {
	key, err := identity.NewKey()
	if err != nil {
		return err
	}
	request, err := identity.Request(key)
	if err != nil {
		return err
	}
	trust := grpc.WithTransportCredentials(identity.Transport(func() (identity.Credential, error) { return old, nil }, k.cfg.Now))
	answer, err := k.ask(ctx, trust, func(ctx context.Context, c agentpb.IdentityClient) (*agentpb.Certified, error) {
		return c.Renew(ctx, &agentpb.RenewRequest{Node: k.cfg.Node, Request: request})
	})
	if err != nil {
		return err
	}
	credential, err := k.take(key, answer, token)
	if err != nil {
		return err
	}
	k.cfg.Log.Info("the node's certificate was renewed", "node", credential.Node.Name, "until", credential.Certificate.NotAfter)
	return nil
}

// take checks what a controller has answered, and writes it.
func (k *Keeper) take(key *ecdsa.PrivateKey, answer *agentpb.Certified, token string) (identity.Credential, error) {
	credential, err := identity.Parse(key, answer.GetCertificate(), answer.GetAuthorities())
	if err != nil {
		return credential, fmt.Errorf("the controller's answer cannot be used: %w", err)
	}
	if credential.Node.Name.Key() != model.NodeName(k.cfg.Node).Key() {
		return credential, fmt.Errorf("the controller's answer cannot be used: it is a certificate of node %s", credential.Node.Name)
	}
	c := content{key: key, certificates: slices.Concat([][]byte{answer.GetCertificate()}, answer.GetAuthorities()), token: token}
	if err := k.write(Name, c); err != nil {
		return credential, fmt.Errorf("write the node's certificate: %w", err)
	}
	return credential, nil
}

// ask calls the controllers in turn until one answers, or one refuses for good.
func (k *Keeper) ask(ctx context.Context, trust grpc.DialOption, do func(context.Context, agentpb.IdentityClient) (*agentpb.Certified, error)) (*agentpb.Certified, error) {
	var all []error
	for _, address := range k.cfg.Addresses {
		answer, err := k.askOne(ctx, address, trust, do)
		if err == nil {
			return answer, nil
		}
		err = &callError{address, err}
		if code := status.Code(err); code != codes.Unavailable && code != codes.DeadlineExceeded {
			return nil, err
		}
		all = append(all, err)
	}
	if len(all) == 0 {
		return nil, errors.New("no address of a controller is configured")
	}
	return nil, errors.Join(all...)
}

// callError is what a controller has answered, without the words of the protocol.
type callError struct {
	address string
	err     error
}

func (e *callError) Error() string {
	return fmt.Sprintf("controller %s: %s", e.address, status.Convert(e.err).Message())
}

func (e *callError) Unwrap() error { return e.err }

func (k *Keeper) askOne(
	ctx context.Context, address string, trust grpc.DialOption, do func(context.Context, agentpb.IdentityClient) (*agentpb.Certified, error),
) (*agentpb.Certified, error) {
	conn, err := k.connect(address, trust)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(ctx, call)
	defer cancel()
	return do(ctx, agentpb.NewIdentityClient(conn))
}
