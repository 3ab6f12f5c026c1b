// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/errs"
	"github.com/holdfast-storage/holdfast/internal/identity"
	"github.com/holdfast-storage/holdfast/internal/identity/authority"
	"github.com/holdfast-storage/holdfast/internal/model"
	"github.com/holdfast-storage/holdfast/internal/schema"
)

func TestAHostJoinsByATokenAndCallsAsItsNodeFromThenOn(t *testing.T) {
	c := newController(t)
	c.register("N1")
	h := newHost(t, c, "n1", c.token("n1").Text())
	if err := h.report("n1"); err == nil || !strings.Contains(err.Error(), "has not joined yet: it is about to") {
		t.Errorf("a host without a certificate was told %v", err)
	}
	h.join()
	if err := h.report("n1"); err != nil {
		t.Error(err)
	}
	got, err := h.Credential()
	if err != nil {
		t.Fatal(err)
	}
	row, _ := schema.Nodes.Get(c.store.Snapshot(), "n1")
	if want := (identity.Node{Name: "N1", UUID: row.UUID, Joins: 1}); got.Node != want {
		t.Errorf("joined as %v, want %v", got.Node, want)
	}
	if life := got.Certificate.NotAfter.Sub(c.clock.Now()); life > 90*24*time.Hour || life < 89*24*time.Hour {
		t.Errorf("the certificate is good for %s, want 90 days", life)
	}
	if info, err := os.Stat(h.path()); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file of the credential has the mode %v, %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(h.dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the state folder holds %v, %v, not the credential alone", entries, err)
	}
	// The same token in its configuration does not make it join again.
	h.restart()
	passed := c.log.String()
	h.run(h.joined)
	if more := strings.TrimPrefix(c.log.String(), passed); more != "" {
		t.Errorf("the restart made the controller log %s", more)
	}
}

// ask makes a join request with a new key.
func ask(tb testing.TB, c *controller, node, secret string) error {
	tb.Helper()
	key, err := identity.NewKey()
	if err != nil {
		tb.Fatal(err)
	}
	request, err := identity.Request(key)
	if err != nil {
		tb.Fatal(err)
	}
	_, err = c.authority.Join(tb.Context(), &agentpb.JoinRequest{Node: node, Secret: secret, Request: request})
	return err
}

func TestATokenThatIsNotGoodIsRefusedWithWhatToDo(t *testing.T) {
	const todo = "holdfast node join-token n1"
	for name, tt := range map[string]struct {
		secret func(*controller) string
		code   codes.Code
		words  []string
	}{
		"made up":  {func(*controller) string { return identity.NewToken("n1", "").Secret }, codes.Unauthenticated, []string{"not valid for node n1", todo}},
		"empty":    {func(*controller) string { return "" }, codes.Unauthenticated, []string{"not valid", todo}},
		"its hash": {func(c *controller) string { return c.token("n1").Hash() }, codes.Unauthenticated, []string{"not valid", todo}},
		"of another node": {func(c *controller) string {
			c.register("n2")
			return c.token("n2").Secret
		}, codes.Unauthenticated, []string{"another node", todo}},
		"replaced": {func(c *controller) string {
			old := c.token("n1")
			c.token("n1")
			return old.Secret
		}, codes.Unauthenticated, []string{"newer one", todo}},
		"of an earlier node of the name": {func(c *controller) string {
			old := c.token("n1")
			c.remove("n1")
			c.register("n1")
			return old.Secret
		}, codes.Unauthenticated, []string{"earlier one", todo}},
		"of a node that is gone": {func(c *controller) string {
			old := c.token("n1")
			c.remove("n1")
			return old.Secret
		}, codes.Unauthenticated, []string{"not valid", todo}},
		"used": {func(c *controller) string {
			token := c.token("n1")
			if err := ask(c.t, c, "n1", token.Secret); err != nil {
				c.t.Fatal(err)
			}
			return token.Secret
		}, codes.PermissionDenied, []string{"was used at 2", todo}},
		"expired": {func(c *controller) string {
			token := c.token("n1")
			c.clock.turn(24*time.Hour + time.Second)
			return token.Secret
		}, codes.PermissionDenied, []string{"has expired at 2", "clock says 2", todo}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newController(t)
			c.register("n1")
			secret := tt.secret(c)
			before := c.store.Snapshot()
			says(t, ask(t, c, "n1", secret), tt.code, tt.words...)
			if now := c.store.Snapshot(); now.Revision() != before.Revision() {
				t.Error("the refusal has changed the database")
			}
			if text := c.log.String(); !strings.Contains(text, "an agent is refused") || secret != "" && strings.Contains(text, secret) {
				t.Errorf("the log does not tell of the refusal, or shows the secret: %s", text)
			}
		})
	}
}

func TestOfManyHostsWithOneTokenExactlyOneJoins(t *testing.T) {
	c := newController(t)
	c.register("n1")
	token := c.token("n1")
	var joined atomic.Int64
	var hosts sync.WaitGroup
	for range 16 {
		hosts.Go(func() {
			switch err := ask(t, c, "n1", token.Secret); {
			case err == nil:
				joined.Add(1)
			case !strings.Contains(err.Error(), "was used"):
				t.Error(err)
			}
		})
	}
	hosts.Wait()
	if joined.Load() != 1 {
		t.Errorf("%d hosts have joined", joined.Load())
	}
}

func TestAHostWhoseAnswerWasLostAsksAgain(t *testing.T) {
	c := newController(t)
	c.register("n1")
	h := newHost(t, c, "n1", c.token("n1").Text())
	c.loseJoin.Store(true)
	h.run(h.logged("the answer was lost"))
	if h.joined() {
		t.Fatal("the host has joined without an answer")
	}
	h.restart() // what it asks again with survives
	h.join()
	if err := h.report("n1"); err != nil {
		t.Error(err)
	}
	if m, _ := schema.Memberships.Get(c.store.Snapshot(), "n1"); m.Joins != 1 {
		t.Errorf("it counts as %d joins", m.Joins)
	}
}

func TestALostAnswerCanBeAskedForForADay(t *testing.T) {
	c := newController(t)
	c.register("n1")
	token := c.token("n1")
	key, err := identity.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	request, err := identity.Request(key)
	if err != nil {
		t.Fatal(err)
	}
	req := &agentpb.JoinRequest{Node: "n1", Secret: token.Secret, Request: request}
	c.clock.turn(23 * time.Hour) // it expires in an hour
	for _, after := range []time.Duration{0, time.Hour, 22 * time.Hour} {
		c.clock.turn(after)
		if _, err := c.authority.Join(t.Context(), req); err != nil {
			t.Errorf("%s later: %v", after, err)
		}
	}
	c.clock.turn(2 * time.Hour)
	_, err = c.authority.Join(t.Context(), req)
	says(t, err, codes.PermissionDenied, "was used at")
}

func TestARequestThatIsNoneIsRefused(t *testing.T) {
	c := newController(t)
	c.register("n1")
	token := c.token("n1")
	key, err := identity.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	request, err := identity.Request(key)
	if err != nil {
		t.Fatal(err)
	}
	forged := append([]byte(nil), request...)
	forged[len(forged)-1] ^= 1
	for name, tt := range map[string]struct {
		node    string
		request []byte
		word    string
	}{
		"empty":       {"n1", nil, "request"},
		"torn":        {"n1", request[:40], "request"},
		"forged":      {"n1", forged, "request"},
		"other curve": {"n1", otherCurve(t), "P-256"},
		"no node":     {"", request, "name"},
		"bad node":    {"a b", request, "name"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.authority.Join(t.Context(), &agentpb.JoinRequest{Node: tt.node, Secret: token.Secret, Request: tt.request})
			says(t, err, codes.InvalidArgument, tt.word)
		})
	}
	if err := ask(t, c, "n1", token.Secret); err != nil {
		t.Errorf("the token was used up: %v", err)
	}
}

func TestATokenForANodeThatIsNotThereOrAnImpossibleTimeIsRefused(t *testing.T) {
	c := newController(t)
	_, _, err := c.authority.NewToken(t.Context(), "n1", 0)
	if !errs.Is(err, errs.NotFound) {
		t.Errorf("got %v, want NotFound", err)
	}
	c.register("n1")
	for _, life := range []time.Duration{-time.Second, time.Millisecond, 31 * 24 * time.Hour} {
		if _, _, err := c.authority.NewToken(t.Context(), "n1", life); !errs.Is(err, errs.Invalid) {
			t.Errorf("%s: got %v, want Invalid", life, err)
		}
	}
	token, until, err := c.authority.NewToken(t.Context(), "N1", time.Hour)
	if err != nil || token.Node != "n1" || until.Sub(c.clock.Now()).Round(time.Minute) != time.Hour {
		t.Errorf("got %v until %s, %v", token, until, err)
	}
}

func TestMembershipsOfNodesThatAreGoneAreForgotten(t *testing.T) {
	c := newController(t)
	for _, n := range []model.NodeName{"n1", "n2", "n3"} {
		joinedHost(t, c, n)
	}
	c.remove("n1")
	c.remove("n2")
	c.token("n3")
	if n := schema.Memberships.Len(c.store.Snapshot()); n != 1 {
		t.Errorf("%d memberships are left", n)
	}
}

// listened is a controller that notes whether anything was told to it.
type listened struct {
	agentpb.UnimplementedIdentityServer
	told atomic.Bool
}

func (l *listened) Join(context.Context, *agentpb.JoinRequest) (*agentpb.Certified, error) {
	l.told.Store(true)
	return nil, errors.New("told")
}

func TestATokenIsToldToNobodyButTheControllerThatMadeIt(t *testing.T) {
	mine, other := newController(t), newController(t)
	mine.register("n1")
	other.register("n1")
	node, err := mine.authority.Issue("n1")
	if err != nil {
		t.Fatal(err)
	}
	for name, creds := range map[string][]grpc.ServerOption{
		"another cluster":           other.authority.ServerOptions(),
		"a node of this cluster":    {grpc.Creds(serverOf(node, true))},
		"a node, without the chain": {grpc.Creds(serverOf(node, false))},
		"no TLS":                    nil,
	} {
		t.Run(name, func(t *testing.T) {
			l := &listened{}
			s := grpc.NewServer(creds...)
			agentpb.RegisterIdentityServer(s, l)
			addr := serveOnLoopback(t, s)
			token := mine.token("n1")
			h := newHost(t, mine, "n1", token.Text())
			h.conf.Addresses, h.conf.Options = []string{addr}, nil
			h.restart()
			h.run(h.logged("could not join"))
			if l.told.Load() {
				t.Error("the token was told to it")
			}
			want := identity.ErrOtherAuthority.Error()
			if creds == nil {
				want = "--plaintext"
			}
			if !strings.Contains(h.log.String(), want) || !strings.Contains(h.log.String(), addr) {
				t.Errorf("the log does not say %q: %s", want, h.log.String())
			}
			if err := h.report("n1"); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("who dials is told %v", err)
			}
		})
	}
}

// confused is a controller that takes each host for another node.
type confused struct {
	*authority.Authority
	node   string
	secret string
}

func (x confused) Join(ctx context.Context, req *agentpb.JoinRequest) (*agentpb.Certified, error) {
	return x.Authority.Join(ctx, &agentpb.JoinRequest{Node: x.node, Secret: x.secret, Request: req.GetRequest()})
}

func TestAHostDoesNotBecomeAnotherNode(t *testing.T) {
	c := newController(t)
	c.register("n1")
	c.register("n2")
	s := grpc.NewServer(c.authority.ServerOptions()...)
	agentpb.RegisterIdentityServer(s, confused{c.authority, "n2", c.token("n2").Secret})
	h := newHost(t, c, "n1", c.token("n1").Text())
	h.conf.Addresses, h.conf.Options = []string{serveOnLoopback(t, s)}, nil
	h.restart()
	h.run(h.logged("it is a certificate of node n2"))
	if h.joined() {
		t.Error("the host has joined")
	}
}

func TestTheTokensMistakesOfAHostAreSaid(t *testing.T) {
	c := newController(t)
	c.register("n1")
	c.register("n2")
	for name, tt := range map[string]struct{ text, want string }{
		"another node's": {c.token("n2").Text(), "start the agent with --node n2"},
		"half of one":    {c.token("n1").Text()[:30], "this is not a join token"},
		"something else": {"secret", "this is not a join token"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, c, "n1", tt.text)
			h.run(h.logged(tt.want))
			if err := h.report("n1"); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("who dials is told %v", err)
			}
		})
	}
}

func TestATokenInAFileIsTakenUpWithoutARestart(t *testing.T) {
	c := newController(t)
	c.register("n1")
	h := newHost(t, c, "n1", "")
	h.conf.TokenFile = h.dir + "/token"
	h.restart()
	go func() { mustWrite(t, h.conf.TokenFile, []byte(c.token("n1").Text()+"\n")) }()
	h.join()
	if err := h.report("n1"); err != nil {
		t.Error(err)
	}
}

func TestSecretsAreInNoLogAndNotReadableInTheDatabase(t *testing.T) {
	c := newController(t)
	c.register("n1")
	token := c.token("n1")
	h := newHost(t, c, "n1", token.Text())
	h.join()
	second := newHost(t, c, "n1", token.Text())
	second.run(second.logged("was used at"))
	credential, err := h.Credential()
	if err != nil {
		t.Fatal(err)
	}
	row, _ := schema.Authorities.Get(c.store.Snapshot(), schema.AuthorityKey)
	private, err := credential.Key.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	logs := c.log.String() + h.log.String() + second.log.String()
	for _, secret := range []string{
		token.Secret, token.Hash(), string(row.PrivateKey), hex.EncodeToString(row.PrivateKey), base64.StdEncoding.EncodeToString(row.PrivateKey),
		string(private), hex.EncodeToString(private),
	} {
		if strings.Contains(logs, secret) {
			t.Errorf("a secret is in the logs:\n%s", logs)
		}
	}
	m, _ := schema.Memberships.Get(c.store.Snapshot(), "n1")
	if m.Token.Hash == token.Secret || m.Token.Hash != token.Hash() {
		t.Errorf("the database has %q of the token", m.Token.Hash)
	}
}

func serveOnLoopback(t *testing.T, s *grpc.Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String()
}
