// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package etcdkv_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/holdfast-storage/holdfast/internal/kv"
	"github.com/holdfast-storage/holdfast/internal/kv/etcdkv"
	"github.com/holdfast-storage/holdfast/internal/kv/etcdkv/etcdtest"
)

func TestSettingsThatCannotWorkAreRefused(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, s := range map[string]etcdkv.Settings{
		"no endpoint":                      {},
		"does not begin with https://":     {Endpoints: []string{"10.0.0.1:2379"}},
		"some with http://":                {Endpoints: []string{"https://a:1", "http://b:1"}},
		"no certificate in PEM":            {Endpoints: []string{"https://a:1"}, CA: empty},
		"read the certificate auth":        {Endpoints: []string{"https://a:1"}, CA: empty + "-not"},
		"read the certificate " + empty:    {Endpoints: []string{"https://a:1"}, Certificate: empty, Key: empty},
		"all endpoints begin with http://": {Endpoints: []string{"http://a:1"}, CA: empty},
	} {
		if _, err := etcdkv.New(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
	}
}

// old is an etcd that says a version.
type old struct {
	pb.UnimplementedMaintenanceServer
	version string
}

func (o old) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return &pb.StatusResponse{Version: o.version}, nil
}

func TestAnOldEtcdIsRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	pb.RegisterMaintenanceServer(s, old{version: "3.3.27"})
	go func() { _ = s.Serve(l) }()
	defer s.Stop()
	e := patient(t, time.Second, "http://"+l.Addr().String())
	if _, err := e.Own(t.Context()); err == nil || !strings.Contains(err.Error(), "etcd 3.3.27") {
		t.Errorf("own answers %v", err)
	}
}

func TestNobodyThereIsSaid(t *testing.T) {
	t.Parallel()
	e := patient(t, 300*time.Millisecond, "http://127.0.0.1:1")
	_, err := e.Own(t.Context())
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("own answers %v", err)
	}
}

func TestRightsAreChecked(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	admin := c.Client()
	ctx := t.Context()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(admin.RoleAdd(ctx, "root"))
	must(admin.UserAdd(ctx, "root", "secret"))
	must(admin.UserGrantRole(ctx, "root", "root"))
	must(admin.RoleAdd(ctx, "storage"))
	must(admin.RoleGrantPermission(ctx, "storage", "/mine/", clientv3.GetPrefixRangeEnd("/mine/"), clientv3.PermissionType(clientv3.PermReadWrite)))
	must(admin.UserAdd(ctx, "holdfast", "pass"))
	must(admin.UserGrantRole(ctx, "holdfast", "storage"))
	must(admin.AuthEnable(ctx))

	as := func(user, password, prefix string) (*etcdkv.Engine, error) {
		e, err := etcdkv.New(etcdkv.Settings{Endpoints: c.Endpoints, Prefix: prefix, User: user, Password: password, Patience: time.Minute})
		if err == nil {
			t.Cleanup(func() { _ = e.Close() })
		}
		return e, err
	}
	e, err := as("holdfast", "pass", "/mine")
	if err != nil {
		t.Fatal(err)
	}
	term := take(t, e)
	if _, err := e.Append(ctx, term, put("a", 1)); err != nil {
		t.Error(err)
	}
	if r, have := rows(t, e); r != 1 || have["a"] != "1" {
		t.Error(r, have)
	}
	for _, w := range []struct{ user, password, prefix, want string }{
		{"holdfast", "pass", "/other", "permission denied"},
		{"holdfast", "wrong", "/mine", "authentication failed"},
		{"", "", "/mine", "user name is empty"},
	} {
		e, err := as(w.user, w.password, w.prefix)
		if err == nil {
			_, err = e.Own(ctx)
		}
		if !errors.Is(err, kv.ErrReadOnly) || !strings.Contains(err.Error(), w.want) {
			t.Errorf("%+v: own answers %v", w, err)
		}
	}
}

func TestAFullEtcdIsSaidAndRecovers(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{Flags: []string{"--quota-backend-bytes", "3000000"}})
	e := patient(t, time.Minute, c.Endpoints...)
	term := take(t, e)
	large := kv.Batch{Put: []kv.Entry{{Key: "large", Value: make([]byte, 900<<10)}}}
	var err error
	n := kv.Revision(0)
	for range 20 {
		if _, err = e.Append(t.Context(), term, large); err != nil {
			break
		}
		n++
	}
	if !errors.Is(err, kv.ErrFull) {
		t.Fatalf("a full etcd answers %v", err)
	}
	if r, _ := rows(t, e); r != n {
		t.Errorf("revision %d can be read, want %d", r, n)
	}
	admin := c.Client()
	etcdkv.Compact(e)
	if _, err := admin.Defragment(t.Context(), c.Endpoints[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.AlarmDisarm(t.Context(), &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	if r, err := e.Append(t.Context(), term, put("a", 1)); err != nil || r != n+1 {
		t.Errorf("append afterwards: %d, %v", r, err)
	}
}

// authority makes certificates for a test.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.make("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, time.Now().Add(time.Hour))
	return a
}

// make writes name.crt and name.key.
func (a *authority) make(name string, c *x509.Certificate, until time.Time) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-48*time.Hour), until
	c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	parent, by := a.cert, a.key
	if parent == nil {
		parent, by = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, by)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		name + ".crt": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(a.file(file), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return made, key
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

func TestTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.make("server", &x509.Certificate{}, time.Now().Add(time.Hour))
	a.make("client", &x509.Certificate{}, time.Now().Add(time.Hour))
	a.make("expired", &x509.Certificate{}, time.Now().Add(-time.Hour))
	start := func(certificate string) []string {
		return etcdtest.Start(t, etcdtest.Options{Scheme: "https", Flags: []string{
			"--cert-file", a.file(certificate + ".crt"), "--key-file", a.file(certificate + ".key"),
			"--client-cert-auth", "--trusted-ca-file", a.file("ca.crt"),
		}}).Endpoints
	}
	sound, expired := start("server"), start("expired")
	for _, w := range []struct {
		name        string
		endpoints   []string
		certificate string
		want        string
	}{
		{"Sound", sound, "client", ""},
		{"WithoutACertificate", sound, "", "certificate"},
		{"ExpiredClient", sound, "expired", "certificate"},
		{"ExpiredMember", expired, "client", "expired"},
	} {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			s := etcdkv.Settings{Endpoints: w.endpoints, CA: a.file("ca.crt"), Patience: 2 * time.Second}
			if w.want == "" {
				s.Patience = time.Minute
			}
			if w.certificate != "" {
				s.Certificate, s.Key = a.file(w.certificate+".crt"), a.file(w.certificate+".key")
			}
			e, err := etcdkv.New(s)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = e.Close() }()
			_, err = e.Own(t.Context())
			switch {
			case w.want == "" && err != nil:
				t.Errorf("own answers %v", err)
			case w.want != "" && (err == nil || !strings.Contains(err.Error(), w.want)):
				t.Errorf("own answers %v, want %q", err, w.want)
			}
		})
	}
}
