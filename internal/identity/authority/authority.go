// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package authority

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/identity"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
	"github.com/holdfast-storage/holdfast/internal/store"
)

const (
	day           = 24 * time.Hour
	authorityLife = 20 * 365 * day
	nodeLife      = 90 * day
	serverLife    = 365 * day
	// skew is how far the clock of a controller may be set back after it has made a
	// certificate, without that certificate lying in the future.
	skew = day
)

// Config is what an Authority needs to know. Store is required.
type Config struct {
	Store *store.Store
	Life  time.Duration    // of certificates of nodes; 90 days when zero
	Now   func() time.Time // nil: time.Now
	Log   *slog.Logger     // nothing is logged when nil
}

// Authority is the certificate authority of a cluster. It implements [agentpb.IdentityServer].
type Authority struct {
	agentpb.UnimplementedIdentityServer
	cfg         Config
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	refusals    refusals

	mu     sync.Mutex
	server *tls.Certificate            // of this process, made anew in time
	made   time.Time                   // when server was
	seen   map[model.NodeKey]time.Time // when the certificates that were seen last expire
}

var _ agentpb.IdentityServer = (*Authority)(nil)

// Open reads the authority from the store, and makes it when the store has none. An authority
// that is there but cannot be read is an error: a new one would shut out every agent.
func Open(ctx context.Context, cfg Config) (*Authority, error) {
	cfg.Life = cmp.Or(cfg.Life, nodeLife)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	row, ok := schema.Authorities.Get(cfg.Store.Snapshot(), schema.AuthorityKey)
	if !ok {
		var err error
		if row, err = create(ctx, cfg); err != nil {
			return nil, fmt.Errorf("make the certificate authority: %w", err)
		}
	}
	a := &Authority{cfg: cfg, seen: make(map[model.NodeKey]time.Time), refusals: refusals{log: cfg.Log, now: cfg.Now}}
	if err := a.read(row); err != nil {
		return nil, fmt.Errorf("the certificate authority in the database cannot be used: %w", err)
	}
	if now := cfg.Now(); now.Before(a.certificate.NotBefore) || now.After(a.certificate.NotAfter) {
		cfg.Log.Error("no agent can connect: this host's clock is outside of the time of the certificate authority; set the clock",
			"clock", identity.Clock(now), "from", identity.Clock(a.certificate.NotBefore), "to", identity.Clock(a.certificate.NotAfter))
	}
	return a, nil
}

// create makes an authority and stores it.
func create(ctx context.Context, cfg Config) (schema.Authority, error) {
	var row schema.Authority
	key, err := identity.NewKey()
	if err != nil {
		return row, err
	}
	now := cfg.Now()
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "Holdfast " + rand.Text()[:8]},
		NotBefore: now.Add(-skew), NotAfter: now.Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	if row.Certificate, err = x509.CreateCertificate(rand.Reader, template, template, key.Public(), key); err != nil {
		return row, err
	}
	if row.PrivateKey, err = x509.MarshalPKCS8PrivateKey(key); err != nil {
		return row, err
	}
	_, err = schema.Update(ctx, cfg.Store, func(tx *store.Tx) error { return schema.Authorities.Insert(tx, row) })
	return row, err
}

func (a *Authority) read(row schema.Authority) error {
	key, err := x509.ParsePKCS8PrivateKey(row.PrivateKey)
	if err != nil {
		return err
	}
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return fmt.Errorf("its key is a %T", key)
	}
	if a.certificate, err = x509.ParseCertificate(row.Certificate); err != nil {
		return err
	}
	if !ec.PublicKey.Equal(a.certificate.PublicKey) {
		return errors.New("its key is not that of its certificate")
	}
	a.key = ec
	return nil
}

// Fingerprint is that of the authority.
func (a *Authority) Fingerprint() string { return identity.Fingerprint(a.certificate) }

// certify signs a certificate for a public key, no longer good than the authority itself.
func (a *Authority) certify(template *x509.Certificate, public any) ([]byte, error) {
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.BasicConstraintsValid = true
	if template.NotAfter.After(a.certificate.NotAfter) {
		template.NotAfter = a.certificate.NotAfter
	}
	return x509.CreateCertificate(rand.Reader, template, a.certificate, public, a.key)
}

// certifyNode makes the certificate of a node.
func (a *Authority) certifyNode(n identity.Node, public any) ([]byte, error) {
	now := a.cfg.Now()
	return a.certify(&x509.Certificate{
		Subject: pkix.Name{CommonName: string(n.Name)}, URIs: []*url.URL{n.URI()},
		NotBefore: now.Add(-skew), NotAfter: now.Add(a.cfg.Life),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, public)
}

// Issue makes the credential of a node for an agent in this process, which needs no token.
// NotFound: no such node is registered.
func (a *Authority) Issue(node model.NodeName) (identity.Credential, error) {
	var none identity.Credential
	view := a.cfg.Store.Snapshot()
	row, err := schema.FindNode(view, string(node))
	if err != nil {
		return none, err
	}
	key, err := identity.NewKey()
	if err != nil {
		return none, err
	}
	der, err := a.certifyNode(identity.Node{Name: row.Name, UUID: row.UUID, Joins: membership(view, row).Joins}, key.Public())
	if err != nil {
		return none, err
	}
	return identity.Parse(key, der, [][]byte{a.certificate.Raw})
}

// membership returns that of a node; it is empty when nobody has joined as it yet.
func membership(r store.Reader, n schema.Node) schema.Membership {
	m, ok := schema.Memberships.Get(r, n.Name.Key())
	if !ok || m.UUID != n.UUID {
		return schema.Membership{Node: n.Name.Key(), UUID: n.UUID}
	}
	return m
}
