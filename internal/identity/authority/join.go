// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package authority

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"net"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/identity"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

// How long a join token is good.
const (
	TokenLife     = day // unless another is asked for
	MostTokenLife = 30 * day
)

// repeatable is how long who has joined may repeat that with the same token and the same key.
const repeatable = day

// NewToken makes a join token for a node, and returns it with the time until which it is good.
// It replaces the one before. A life of 0 is TokenLife. Errors: NotFound for a node that is not
// registered, Invalid for a life that is not possible.
func (a *Authority) NewToken(ctx context.Context, node string, life time.Duration) (identity.Token, time.Time, error) {
	var none identity.Token
	if life == 0 {
		life = TokenLife
	}
	if life < time.Second || life > MostTokenLife {
		return none, time.Time{}, errs.New(errs.Invalid, errs.Node, "a join token cannot be good for %s", life).
			Because("1s to %s are possible", MostTokenLife).Fix("ask for a shorter or longer time, or leave it out")
	}
	row, err := schema.FindNode(a.cfg.Store.Snapshot(), node)
	if err != nil {
		return none, time.Time{}, err
	}
	token := identity.NewToken(row.Name, a.Fingerprint())
	now := a.time()
	made := schema.JoinToken{Hash: token.Hash(), Created: now, Expires: now.Add(life)}
	_, err = schema.Update(ctx, a.cfg.Store, func(tx *store.Tx) error {
		row, err := schema.FindNode(tx, node)
		if err != nil {
			return err
		}
		if err := forget(tx); err != nil {
			return err
		}
		m := membership(tx, row)
		m.Token = &made
		return put(tx, m)
	})
	if err != nil {
		return none, time.Time{}, err
	}
	a.cfg.Log.Info("a join token was made", "node", row.Name, "expires", made.Expires)
	return token, made.Expires, nil
}

// time is now as rows have it.
func (a *Authority) time() time.Time { return a.cfg.Now().UTC().Round(0) }

// put writes a membership, over that of an earlier node of the name.
func put(tx *store.Tx, m schema.Membership) error {
	if _, ok := schema.Memberships.Get(tx, m.Node); ok {
		return schema.Memberships.Update(tx, m)
	}
	return schema.Memberships.Insert(tx, m)
}

// forget removes memberships of nodes that are gone; of very many, some are left for the next
// time.
func forget(tx *store.Tx) error {
	const most = 50
	gone := 0
	for m := range schema.Memberships.All(tx) {
		if _, ok := schema.Nodes.Get(tx, m.Node); ok {
			continue
		}
		if err := schema.Memberships.Delete(tx, m.Node); err != nil {
			return err
		}
		if gone++; gone == most {
			break
		}
	}
	return nil
}

// Join implements [agentpb.IdentityServer].
func (a *Authority) Join(ctx context.Context, req *agentpb.JoinRequest) (*agentpb.Certified, error) {
	name, err := model.ParseNodeName(req.GetNode())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	key, err := publicKey(req.GetRequest())
	if err != nil {
		return nil, err
	}
	from := addressOf(ctx)
	node, err := a.enter(ctx, name, identity.HashSecret(req.GetSecret()), key)
	if err != nil {
		a.refusals.note(from, errors.New(status.Convert(err).Message()))
		return nil, err
	}
	a.cfg.Log.Info("a host has joined", "node", node.Name, "join", node.Joins, "address", from.String())
	return a.answer(node, key)
}

// enter takes a token for used by a key, and returns as whom its holder has joined.
func (a *Authority) enter(ctx context.Context, name model.NodeName, hash string, key *ecdsa.PublicKey) (identity.Node, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return identity.Node{}, status.Error(codes.InvalidArgument, err.Error())
	}
	sum := sha256.Sum256(der)
	user, now := hex.EncodeToString(sum[:]), a.time()
	var node identity.Node
	_, err = a.cfg.Store.Update(ctx, func(tx *store.Tx) error {
		row, ok := schema.Nodes.Get(tx, name.Key())
		m := membership(tx, row)
		if !ok || m.Token == nil || subtle.ConstantTimeCompare([]byte(m.Token.Hash), []byte(hash)) != 1 {
			return status.Errorf(codes.Unauthenticated, "the join token is not valid for node %s: "+
				"it was made for another node or an earlier one of that name, or a newer one was made since; %s", name, makeToken(string(name)))
		}
		node = identity.Node{Name: row.Name, UUID: row.UUID, Joins: m.Joins}
		token := *m.Token
		switch {
		case token.Used != nil && token.UsedKey == user && now.Before(token.Used.Add(repeatable)):
			return nil // the answer was lost
		case token.Used != nil:
			return status.Errorf(codes.PermissionDenied, "the join token of node %s was used at %s already, and is good once; %s",
				row.Name, identity.Clock(*token.Used), makeToken(string(row.Name)))
		case !now.Before(token.Expires):
			return status.Errorf(codes.PermissionDenied, "the join token of node %s has expired at %s, and the controller's clock says %s; %s",
				row.Name, identity.Clock(token.Expires), identity.Clock(now), makeToken(string(row.Name)))
		}
		token.Used, token.UsedKey = &now, user
		m.Joins++
		m.Token = &token
		node.Joins = m.Joins
		return put(tx, m)
	})
	return node, asStatus(err)
}

// asStatus turns an error of the store into a status; the caller tries again.
func asStatus(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[interface {
		error
		GRPCStatus() *status.Status
	}](err); ok {
		return err
	}
	return status.Error(codes.Unavailable, schema.Refusal(err).Error())
}

// Renew implements [agentpb.IdentityServer].
func (a *Authority) Renew(ctx context.Context, req *agentpb.RenewRequest) (*agentpb.Certified, error) {
	node := model.NodeName(req.GetNode()).Key()
	if err := a.Admit(ctx, node); err != nil {
		return nil, status.Errorf(codes.PermissionDenied, "the certificate of node %s is not renewed: %v", node, err)
	}
	c, err := a.caller(ctx)
	if err != nil {
		return nil, status.Error(codes.Unauthenticated, err.Error())
	}
	key, err := publicKey(req.GetRequest())
	if err != nil {
		return nil, err
	}
	a.cfg.Log.Info("a certificate was renewed", "node", c.node.Name, "expired", c.expires)
	return a.answer(c.node, key)
}

func (a *Authority) answer(node identity.Node, key *ecdsa.PublicKey) (*agentpb.Certified, error) {
	der, err := a.certifyNode(node, key)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "sign the certificate of node %s: %v", node.Name, err)
	}
	return &agentpb.Certified{Certificate: der, Authorities: [][]byte{a.certificate.Raw}}, nil
}

// publicKey returns the key of a certificate request, whose sender has proven to have it.
func publicKey(der []byte) (*ecdsa.PublicKey, error) {
	req, err := x509.ParseCertificateRequest(der)
	if err == nil {
		err = req.CheckSignature()
	}
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "the certificate request cannot be used: %v", err)
	}
	key, ok := req.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, status.Error(codes.InvalidArgument, "the certificate request is not for a key of ECDSA on P-256")
	}
	return key, nil
}

func addressOf(ctx context.Context) net.Addr {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr
	}
	return &net.UnixAddr{}
}
