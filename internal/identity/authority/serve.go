// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package authority

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/identity"
)

// ServerOptions makes a gRPC server speak TLS with the certificate of this controller, and
// refuse every call but Join of who has no certificate of a node.
func (a *Authority) ServerOptions() []grpc.ServerOption {
	const handshake = 20 * time.Second
	inner := credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, GetCertificate: a.serverCertificate, SessionTicketsDisabled: true,
		// The certificate is verified by hand after the handshake, which has proven that the
		// caller has its key: an alert of TLS could not say what is wrong with it.
		ClientAuth: tls.RequestClientCert,
	})
	return []grpc.ServerOption{grpc.Creds(transport{inner, a}), grpc.InTapHandle(a.gate), grpc.ConnectionTimeout(handshake)}
}

// serverCertificate returns the certificate of this process. It begins with the authority, so
// that a host whose clock is behind takes it.
func (a *Authority) serverCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.cfg.Now()
	if a.server != nil && !now.Before(a.made) && now.Before(a.made.Add(serverLife/3*2)) {
		return a.server, nil
	}
	key, err := identity.NewKey()
	if err != nil {
		return nil, err
	}
	der, err := a.certify(&x509.Certificate{
		Subject: pkix.Name{CommonName: identity.ServerName}, DNSNames: []string{identity.ServerName},
		NotBefore: a.certificate.NotBefore, NotAfter: now.Add(serverLife),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, key.Public())
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	// The authority goes along for hosts that know no more than its fingerprint.
	a.server = &tls.Certificate{Certificate: [][]byte{der, a.certificate.Raw}, PrivateKey: key, Leaf: leaf}
	a.made = now
	return a.server, nil
}

// transport adds to each connection who is at its other end.
type transport struct {
	credentials.TransportCredentials
	authority *Authority
}

// caller is who is at the other end of a connection.
type caller struct {
	credentials.TLSInfo
	node    identity.Node
	expires time.Time
	refused error // why node is not to be believed; nil when it is
}

// ServerHandshake implements credentials.TransportCredentials.
func (t transport) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := t.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		if _, plain := errors.AsType[tls.RecordHeaderError](err); plain {
			t.authority.refusals.note(raw.RemoteAddr(), errors.New("it speaks no TLS; was its agent started with --plaintext?"))
		}
		return nil, nil, err
	}
	state, ok := info.(credentials.TLSInfo)
	if !ok {
		return nil, nil, errors.Join(fmt.Errorf("the handshake gave a %T", info), conn.Close())
	}
	c := caller{TLSInfo: state}
	c.node, c.expires, c.refused = t.authority.verify(state.State.PeerCertificates)
	return conn, c, nil
}

// Clone implements credentials.TransportCredentials.
func (t transport) Clone() credentials.TransportCredentials {
	return transport{t.TransportCredentials.Clone(), t.authority}
}

// verify tells whom the certificate of a client names, if it is one of this authority.
func (a *Authority) verify(chain []*x509.Certificate) (identity.Node, time.Time, error) {
	var nobody identity.Node
	if len(chain) == 0 {
		return nobody, time.Time{}, errors.New("the call came without a certificate: the host has not joined; " + makeToken("NODE"))
	}
	c, now := chain[0], a.cfg.Now()
	node, err := identity.NodeOf(c)
	if err != nil {
		return nobody, time.Time{}, fmt.Errorf("%w; %s", err, makeToken("NODE"))
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.certificate)
	_, err = c.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	bad, invalid := errors.AsType[x509.CertificateInvalidError](err)
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	switch {
	case err == nil:
		return node, c.NotAfter, nil
	case invalid && bad.Reason == x509.Expired && now.Before(c.NotBefore):
		err = fmt.Errorf("the certificate of node %s is good from %s on, and the controller's clock says %s; set the controller's clock",
			node.Name, identity.Clock(c.NotBefore), identity.Clock(now))
	case invalid && bad.Reason == x509.Expired:
		err = fmt.Errorf("the certificate of node %s has expired at %s, and the controller's clock says %s; set the clock if that is wrong, else %s",
			node.Name, identity.Clock(c.NotAfter), identity.Clock(now), makeToken(string(node.Name)))
	case unknown:
		err = fmt.Errorf("the certificate of node %s is from another authority than this controller's; dial the right controller, or %s",
			node.Name, makeToken(string(node.Name)))
	default:
		err = fmt.Errorf("the certificate of node %s is not good: %w; %s", node.Name, err, makeToken(string(node.Name)))
	}
	return nobody, time.Time{}, err
}

// makeToken says how a host comes to a certificate.
func makeToken(node string) string {
	return "let the host join with a token from `holdfast node join-token " + node + "`"
}

// gate refuses calls by their connection, before anything of their messages is read. Only who
// has a certificate of a node may call; whether of the right one is for Admit to say.
func (a *Authority) gate(ctx context.Context, call *tap.Info) (context.Context, error) {
	if call.FullMethodName == agentpb.Identity_Join_FullMethodName {
		return ctx, nil
	}
	if _, err := a.caller(ctx); err != nil {
		return ctx, status.Error(codes.Unauthenticated, err.Error())
	}
	return ctx, nil
}

// caller returns who is calling, or why that is not known.
func (a *Authority) caller(ctx context.Context) (caller, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return caller{}, errors.New("the call did not come over a connection")
	}
	c, ok := p.AuthInfo.(caller)
	if !ok {
		return caller{}, errors.New("the call did not come over TLS")
	}
	if c.refused != nil {
		a.refusals.note(p.Addr, c.refused)
	}
	return c, c.refused
}
