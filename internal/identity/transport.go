// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"google.golang.org/grpc/credentials"
)

// Transport returns what an agent dials its controllers with. Load is called for each
// handshake anew. The present time is now's.
func Transport(load func() (Credential, error), now func() time.Time) credentials.TransportCredentials {
	return transport{now: now, config: func() (*tls.Config, error) {
		c, err := load()
		if err != nil {
			return nil, err
		}
		own := c.tls()
		return &tls.Config{
			MinVersion: tls.VersionTLS13, RootCAs: pool(c.Authorities), Time: now,
			// Given whatever authorities the controller asks for: it says best why it refuses one.
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil },
		}, nil
	}}
}

// Pinned returns what a host dials with that has not joined yet: it trusts the authority with
// a fingerprint alone, and shows nothing.
func Pinned(fingerprint string, now func() time.Time) credentials.TransportCredentials {
	return transport{now: now, config: func() (*tls.Config, error) {
		return &tls.Config{
			MinVersion: tls.VersionTLS13,
			//nolint:gosec // VerifyConnection verifies the chain against the pinned authority.
			InsecureSkipVerify: true,
			VerifyConnection: func(s tls.ConnectionState) error {
				return verifyPinned(s.PeerCertificates, fingerprint, now())
			},
		}, nil
	}}
}

// ErrOtherAuthority says that a controller is not of the cluster that it was taken for.
var ErrOtherAuthority = errors.New("it is not a controller of this cluster")

func verifyPinned(chain []*x509.Certificate, fingerprint string, now time.Time) error {
	i := slices.IndexFunc(chain, func(c *x509.Certificate) bool { return Fingerprint(c) == fingerprint })
	if i < 0 {
		return fmt.Errorf("%w: its authority is not the one in the join token; nothing was told to it; dial the controller that made the token", ErrOtherAuthority)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: pool(chain[i : i+1]), DNSName: ServerName, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: chain, Err: err}
	}
	return nil
}

// transport makes a new configuration for each handshake.
type transport struct {
	config func() (*tls.Config, error)
	now    func() time.Time
}

// ClientHandshake implements credentials.TransportCredentials.
func (t transport) ClientHandshake(ctx context.Context, _ string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	config, err := t.config()
	if err != nil {
		return nil, nil, err
	}
	conn, info, err := credentials.NewTLS(config).ClientHandshake(ctx, ServerName, raw)
	if err != nil {
		return nil, nil, explain(err, t.now())
	}
	return conn, info, nil
}

// ServerHandshake implements credentials.TransportCredentials. Agents serve nothing.
func (transport) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are those of a client")
}

// Info implements credentials.TransportCredentials.
func (transport) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone implements credentials.TransportCredentials.
func (t transport) Clone() credentials.TransportCredentials { return t }

// OverrideServerName implements credentials.TransportCredentials. The name is fixed.
func (transport) OverrideServerName(string) error { return nil }

// explain says what to do about a handshake that failed.
func explain(err error, now time.Time) error {
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return fmt.Errorf("the other side speaks no TLS; is this where a controller listens for agents, and was it started without --plaintext? %w", err)
	}
	refused, ok := errors.AsType[*tls.CertificateVerificationError](err)
	if !ok {
		return err
	}
	if bad, ok := errors.AsType[x509.CertificateInvalidError](err); ok && bad.Reason == x509.Expired && bad.Cert != nil {
		return fmt.Errorf("the controller's certificate is good from %s to %s, and this host's clock says %s; set the clocks of both hosts",
			Clock(bad.Cert.NotBefore), Clock(bad.Cert.NotAfter), Clock(now))
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return fmt.Errorf("%w: its authority is not one that this node trusts; dial the right controller, "+
			"or, if its database was made anew, join again with a token from `holdfast node join-token`", ErrOtherAuthority)
	}
	return fmt.Errorf("%w: its certificate is not a controller's: %w", ErrOtherAuthority, refused.Err)
}

// Clock is how errors show a time.
func Clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
