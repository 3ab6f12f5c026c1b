// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/identity"
	"github.com/holdfast-storage/holdfast/internal/schema"
)

// serverOf makes a node's credential that of a server.
func serverOf(c identity.Credential, chain bool) credentials.TransportCredentials {
	own := tls.Certificate{Certificate: [][]byte{c.Certificate.Raw}, PrivateKey: c.Key}
	if chain {
		own.Certificate = append(own.Certificate, c.Authorities[0].Raw)
	}
	return credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{own}})
}

func otherCurve(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// showing makes a call as a node with a certificate, or none, that is not checked on this side.
func showing(t *testing.T, c *controller, node string, certificates ...tls.Certificate) error {
	t.Helper()
	conn, err := grpc.NewClient(address, c.dialer(), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		InsecureSkipVerify: true,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if len(certificates) == 0 {
				return &tls.Certificate{}, nil
			}
			return &certificates[0], nil
		},
	})))
	if err != nil {
		t.Fatal(err)
	}
	return errors.Join(report(t.Context(), conn, node), conn.Close())
}

// forged returns a certificate like one, in the name of an issuer but signed by somebody else.
// Without an issuer it is its own.
func forged(t *testing.T, like *x509.Certificate, issuer *x509.Certificate) tls.Certificate {
	t.Helper()
	key, err := identity.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	template := *like
	template.SerialNumber, template.PublicKey = big.NewInt(7), nil
	parent := template
	if issuer != nil {
		parent = *issuer
		parent.PublicKey = nil
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &parent, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestNobodyIsAdmittedWithoutACertificateOfThisAuthority(t *testing.T) {
	c, other := newController(t), newController(t)
	c.register("n1")
	other.register("n1")
	mine, err := c.authority.Issue("n1")
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := other.authority.Issue("n1")
	if err != nil {
		t.Fatal(err)
	}
	good := tls.Certificate{Certificate: [][]byte{mine.Certificate.Raw}, PrivateKey: mine.Key}
	if err := showing(t, c, "n1", good); err != nil {
		t.Fatalf("the right one: %v", err)
	}
	nameless := *mine.Certificate
	nameless.URIs = nil
	strange := *mine.Certificate
	strange.URIs = []*url.URL{{Scheme: "spiffe", Host: "cluster", Path: "/n1"}}
	for name, tt := range map[string]struct {
		certificates []tls.Certificate
		word         string
	}{
		"none":                    {nil, "without a certificate"},
		"of another cluster":      {[]tls.Certificate{{Certificate: [][]byte{theirs.Certificate.Raw}, PrivateKey: theirs.Key}}, "another authority"},
		"signed by itself":        {[]tls.Certificate{forged(t, mine.Certificate, nil)}, "another authority"},
		"signed by somebody else": {[]tls.Certificate{forged(t, mine.Certificate, mine.Authorities[0])}, "another authority"},
		"naming nobody":           {[]tls.Certificate{forged(t, &nameless, nil)}, "0 nodes"},
		"naming somebody strange": {[]tls.Certificate{forged(t, &strange, nil)}, "no node"},
	} {
		t.Run(name, func(t *testing.T) {
			says(t, showing(t, c, "n1", tt.certificates...), codes.Unauthenticated, tt.word, "holdfast node join-token")
		})
	}
	if n := c.calls.Load(); n != 1 {
		t.Errorf("%d calls were admitted", n)
	}
}

func TestAPeerWithoutTLSIsNotServed(t *testing.T) {
	c := newController(t)
	c.register("n1")
	conn, err := grpc.NewClient(address, c.dialer(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	says(t, errors.Join(report(t.Context(), conn, "n1"), conn.Close()), codes.Unavailable)
	until(t, &c.log, func() bool { return containsAll(c.log.String(), "an agent is refused", "--plaintext") })
}

// TestCallsOverAnOpenServerAreRefused is about a server that was built without the options of
// the authority by mistake.
func TestCallsThatDidNotComeOverTLSAreNotAdmitted(t *testing.T) {
	c := newController(t)
	c.register("n1")
	c.stop()
	c.start()
	conn, err := grpc.NewClient(address, c.dialer(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	says(t, errors.Join(report(t.Context(), conn, "n1"), conn.Close()), codes.PermissionDenied, "TLS")
}

func TestANodeMayActAsItselfAlone(t *testing.T) {
	c := newController(t)
	h := joinedHost(t, c, "n1")
	joinedHost(t, c, "n2")
	says(t, h.report("n2"), codes.PermissionDenied, "certificate of node n1")
	says(t, h.report("n3"), codes.PermissionDenied, "certificate of node n1")
	says(t, h.report(""), codes.PermissionDenied, "certificate of node n1")
	if !containsAll(c.log.String(), "an agent is refused", "may act as that node alone") {
		t.Errorf("the log does not tell of it: %s", c.log.String())
	}
	conn, err := h.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, conn)
	_, err = agentpb.NewIdentityClient(conn).Renew(t.Context(), &agentpb.RenewRequest{Node: "n2"})
	says(t, err, codes.PermissionDenied, "certificate of node n1")
	if err := h.report("N1"); err != nil {
		t.Errorf("its own name in other letters: %v", err)
	}
}

func TestTheCertificateOfANodeThatWasDeletedIsRefusedAlsoWhenItIsCreatedAgain(t *testing.T) {
	c := newController(t)
	h := joinedHost(t, c, "n1")
	conn, err := h.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, conn)
	if err := report(t.Context(), conn, "n1"); err != nil {
		t.Fatal(err)
	}
	c.remove("n1")
	says(t, report(t.Context(), conn, "n1"), codes.PermissionDenied, "not registered", "holdfast node join-token n1")
	c.register("n1")
	says(t, report(t.Context(), conn, "n1"), codes.PermissionDenied, "earlier node", "holdfast node join-token n1")
	says(t, h.report("n1"), codes.PermissionDenied, "earlier node")

	h.conf.Token = c.token("n1").Text()
	h.restart()
	h.run(h.logged("this host has joined\" node=n1"))
	h.run(func() bool { return h.report("n1") == nil })
}

func TestWhoJoinsShutsOutWhoHasTheOldKey(t *testing.T) {
	c := newController(t)
	old := joinedHost(t, c, "n1")
	conn, err := old.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, conn)
	token := c.token("n1")
	if err := report(t.Context(), conn, "n1"); err != nil {
		t.Errorf("a new token alone shuts nobody out: %v", err)
	}
	fresh := newHost(t, c, "n1", token.Text())
	fresh.join()
	if err := fresh.report("n1"); err != nil {
		t.Error(err)
	}
	says(t, report(t.Context(), conn, "n1"), codes.PermissionDenied, "another host has joined as node n1", "holdfast node join-token n1")
	_, err = agentpb.NewIdentityClient(conn).Renew(t.Context(), &agentpb.RenewRequest{Node: "n1"})
	says(t, err, codes.PermissionDenied, "another host has joined")
}

func TestAnExpiredCertificateIsRefusedWithBothTimes(t *testing.T) {
	c := newController(t)
	h := joinedHost(t, c, "n1")
	c.clock.turn(91 * 24 * time.Hour)
	says(t, h.report("n1"), codes.Unauthenticated, "has expired at 2", "clock says 2", "holdfast node join-token n1")
}

func TestClocksThatAreWrongAreNamed(t *testing.T) {
	c := newController(t)
	h := joinedHost(t, c, "n1")
	c.clock.turn(-23 * time.Hour)
	if err := h.report("n1"); err != nil {
		t.Errorf("a controller whose clock was set back by less than a day: %v", err)
	}
	c.clock.turn(-2 * time.Hour)
	// The agent asks its own clock about the controller's certificate.
	h.conf.Now = time.Now
	h.restart()
	says(t, h.report("n1"), codes.Unauthenticated, "is good from 2", "set the controller's clock")

	c.clock.turn(25 * time.Hour)
	for _, wrong := range []time.Duration{-48 * time.Hour, 2 * 365 * 24 * time.Hour} {
		h.conf.Now = func() time.Time { return time.Now().Add(wrong) }
		h.restart()
		says(t, h.report("n1"), codes.Unavailable, "this host's clock says", "set the clocks")
	}
}

// sign makes a certificate by the authority of a controller.
func (c *controller) sign(template *x509.Certificate) tls.Certificate {
	c.t.Helper()
	row, _ := schema.Authorities.Get(c.store.Snapshot(), schema.AuthorityKey)
	signer, err := x509.ParsePKCS8PrivateKey(row.PrivateKey)
	if err != nil {
		c.t.Fatal(err)
	}
	parent, err := x509.ParseCertificate(row.Certificate)
	if err != nil {
		c.t.Fatal(err)
	}
	key, err := identity.NewKey()
	if err != nil {
		c.t.Fatal(err)
	}
	template.NotBefore, template.NotAfter = parent.NotBefore, parent.NotAfter
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		c.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der, row.Certificate}, PrivateKey: key}
}

func TestACertificateOfTheAuthorityIsGoodForWhatItWasMadeForAlone(t *testing.T) {
	c := newController(t)
	h := joinedHost(t, c, "n1")
	credential, err := h.Credential()
	if err != nil {
		t.Fatal(err)
	}
	asServer := c.sign(&x509.Certificate{URIs: credential.Certificate.URIs, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	says(t, showing(t, c, "n1", asServer), codes.Unauthenticated, "is not good", "holdfast node join-token n1")

	for name, template := range map[string]*x509.Certificate{
		"for clients":    {DNSNames: []string{identity.ServerName}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
		"of other names": {DNSNames: []string{"localhost"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}},
	} {
		t.Run(name, func(t *testing.T) {
			l := &listened{}
			s := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{c.sign(template)}})))
			agentpb.RegisterIdentityServer(s, l)
			h.conf.Addresses, h.conf.Options = []string{serveOnLoopback(t, s)}, nil
			h.conf.Token = c.token("n1").Text()
			h.restart()
			h.log = &journal{}
			h.conf.Log = h.log.logger()
			h.restart()
			h.run(h.logged(identity.ErrOtherAuthority.Error()))
			if l.told.Load() {
				t.Error("the token was told to it")
			}
			conn, err := h.Dial(h.conf.Addresses[0])
			if err != nil {
				t.Fatal(err)
			}
			says(t, errors.Join(report(t.Context(), conn, "n1"), conn.Close()), codes.Unavailable, identity.ErrOtherAuthority.Error())
		})
	}
}

func TestACredentialThatIsIssuedWithoutATokenIsAsGoodAsAnyOther(t *testing.T) {
	c := newController(t)
	joinedHost(t, c, "n1")
	conn := c.dialAs(t, "n1")
	defer closed(t, conn)
	if err := report(t.Context(), conn, "n1"); err != nil {
		t.Error(err)
	}
}

func TestAHostWhoseClockIsBehindIsServedWhileItsAuthorityExists(t *testing.T) {
	c := newController(t)
	c.register("n1")
	h := newHost(t, c, "n1", c.token("n1").Text())
	h.conf.Now = func() time.Time { return time.Now().Add(-20 * time.Hour) }
	h.restart()
	h.join()
	if err := h.report("n1"); err != nil {
		t.Error(err)
	}
}

func TestTheSameRefusalIsLoggedOnceInAWhile(t *testing.T) {
	c := newController(t)
	h := joinedHost(t, c, "n1")
	count := func() int { return strings.Count(c.log.String(), "an agent is refused") }
	for range 5 {
		says(t, h.report("n2"), codes.PermissionDenied)
	}
	if n := count(); n != 1 {
		t.Errorf("5 refusals were logged %d times", n)
	}
	says(t, h.report("n3"), codes.PermissionDenied)
	says(t, showing(t, c, "n1"), codes.Unauthenticated)
	if n := count(); n != 2 {
		t.Errorf("with another reason it is logged %d times, want 2", n)
	}
	c.clock.turn(11 * time.Minute)
	says(t, h.report("n2"), codes.PermissionDenied)
	if n := count(); n != 3 {
		t.Errorf("after a while it is logged %d times, want 3", n)
	}
}

func TestTheControllersOwnCertificateIsNoNodes(t *testing.T) {
	c := newController(t)
	c.register("n1")
	node, err := c.authority.Issue("n1")
	if err != nil {
		t.Fatal(err)
	}
	if len(node.Certificate.ExtKeyUsage) != 1 || node.Certificate.ExtKeyUsage[0] != x509.ExtKeyUsageClientAuth {
		t.Errorf("a node's certificate is good for %v", node.Certificate.ExtKeyUsage)
	}
	if node.Certificate.IsCA || len(node.Certificate.DNSNames) > 0 {
		t.Error("a node's certificate is that of an authority, or has the name of a server")
	}
}
