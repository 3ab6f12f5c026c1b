// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package etcdkv

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfast-storage/holdfast/internal/kv"
)

// Settings say which etcd cluster, and how it is spoken to.
type Settings struct {
	Endpoints []string // URLs of its members; one or several
	Prefix    string   // begins all keys; "/holdfast/" when empty

	// Files in PEM form. CA holds the authorities that the members' certificates are checked with; the system's when empty.
	// Certificate and Key are read anew for each connection, so that they may be replaced at any time.
	CA, Certificate, Key string

	User     string // empty: none
	Password string

	// Patience is how long an answer of etcd is waited for in all, with repeated attempts; 10 s when 0.
	Patience time.Duration
}

// Bounds of one attempt.
const (
	attempt   = 2 * time.Second        // a member that does not answer is given up; another one is asked
	pauseStep = 50 * time.Millisecond  // between attempts, growing
	pauseMost = 500 * time.Millisecond // between attempts, at most
	aliveTime = 10 * time.Second       // gRPC asks no more often whether a silent connection is alive
)

// defaultPrefix begins the keys of a cluster that says nothing else.
const defaultPrefix = "/holdfast/"

// Base returns the prefix of all keys, with a slash at its end.
func (s Settings) Base() string {
	return strings.TrimSuffix(cmp.Or(s.Prefix, defaultPrefix), "/") + "/"
}

// Members are the clients of a cluster, one for each endpoint, of which one is used at a time. A member that hangs is noticed by a
// call that is not answered, long before its connection is given up; the next call then goes to the next member.
type Members struct {
	configs []clientv3.Config
	secure  *tls.Config // nil: no TLS
	at      atomic.Int64

	mu      sync.Mutex
	clients []*clientv3.Client // nil: not made yet
	closed  bool
}

// Connect prepares the clients of a cluster, and does not wait for connections: an etcd that cannot be reached, or that refuses the
// user, shows at the first call. Files that cannot be read are errors.
func Connect(s Settings) (*Members, error) {
	if len(s.Endpoints) == 0 {
		return nil, errors.New("etcd: no endpoint is given, for example https://10.0.0.1:2379")
	}
	secure, err := s.tls()
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	m := &Members{secure: secure, clients: make([]*clientv3.Client, len(s.Endpoints))}
	for _, endpoint := range s.Endpoints {
		m.configs = append(m.configs, clientv3.Config{
			Endpoints:            []string{endpoint},
			TLS:                  secure,
			Username:             s.User,
			Password:             s.Password,
			DialTimeout:          attempt,
			DialKeepAliveTime:    aliveTime,
			DialKeepAliveTimeout: attempt,
			PermitWithoutStream:  true,
			MaxUnaryRetries:      1,
			Logger:               zap.NewNop(),
		})
	}
	return m, nil
}

// Use returns the client that is used now, and a function that turns to the next one. The function does nothing when another
// caller has turned meanwhile. With a user, making a client asks its member for a token.
func (m *Members) Use() (c *clientv3.Client, turn func(), err error) {
	at := m.at.Load()
	turn = func() { m.at.CompareAndSwap(at, at+1) }
	i := at % int64(len(m.configs))
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, turn, kv.ErrClosed
	}
	if m.clients[i] == nil {
		if m.clients[i], err = clientv3.New(m.configs[i]); err != nil {
			turn()
			return nil, turn, err
		}
	}
	return m.clients[i], turn, nil
}

// Close closes all clients.
func (m *Members) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	var all []error
	for _, c := range m.clients {
		if c == nil {
			continue
		}
		if err := c.Close(); err != nil && !errors.Is(err, context.Canceled) {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// tls returns the settings of TLS, or nil when no endpoint speaks it.
func (s Settings) tls() (*tls.Config, error) {
	plain, secure := 0, 0
	for _, e := range s.Endpoints {
		switch {
		case strings.HasPrefix(e, "https://"):
			secure++
		case strings.HasPrefix(e, "http://"):
			plain++
		default:
			return nil, fmt.Errorf("endpoint %q does not begin with https:// or http://", e)
		}
	}
	if secure == 0 {
		if s.CA != "" || s.Certificate != "" {
			return nil, errors.New("certificates are given, but all endpoints begin with http://")
		}
		return nil, nil //nolint:nilnil // nil is the setting for no TLS.
	}
	if plain > 0 {
		return nil, errors.New("some endpoints begin with https://, some with http://")
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CA != "" {
		pem, err := os.ReadFile(s.CA)
		if err != nil {
			return nil, fmt.Errorf("read the certificate authority: %w", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate in PEM form", s.CA)
		}
	}
	if s.Certificate == "" {
		return c, nil
	}
	load := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(s.Certificate, s.Key)
		if err != nil {
			return nil, fmt.Errorf("read the certificate %s with the key %s: %w", s.Certificate, s.Key, err)
		}
		return &pair, nil
	}
	if _, err := load(); err != nil {
		return nil, err
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	return c, nil
}

// reason adds to an error of etcd that did not answer what a bare connection to each member meets: the client keeps that to itself.
func (m *Members) reason(ctx context.Context, err error) error {
	if !errors.Is(err, errSilent) {
		return err
	}
	for _, c := range m.configs {
		endpoint := c.Endpoints[0]
		if met := m.knock(ctx, endpoint); met != nil {
			err = fmt.Errorf("%w; %s: %w", err, endpoint, met)
		}
	}
	return err
}

// knock connects to an endpoint as gRPC would, and returns what goes wrong. A refused certificate shows at the first read.
func (m *Members) knock(ctx context.Context, endpoint string) error {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	_, address, _ := strings.Cut(endpoint, "://")
	address, _, _ = strings.Cut(address, "/")
	if m.secure == nil {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	secure := m.secure.Clone()
	secure.NextProtos = []string{"h2"}
	conn, err := (&tls.Dialer{Config: secure}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // Nothing was written.
	const soon = 300 * time.Millisecond
	if err := conn.SetReadDeadline(time.Now().Add(soon)); err != nil {
		return err
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return nil
}

// The oldest etcd that has what this package needs.
const (
	oldestMajor = 3
	oldestMinor = 4
)

// suit returns an error when a member says that it is too old. A member that says nothing is no error here: what is done next
// tells why.
func (m *Members) suit(ctx context.Context) error {
	for range m.configs {
		c, turn, err := m.Use()
		if err != nil {
			continue
		}
		endpoint := c.Endpoints()[0]
		asking, cancel := context.WithTimeout(ctx, attempt)
		st, err := c.Status(asking, endpoint)
		cancel()
		if err != nil {
			turn()
			continue
		}
		major, rest, _ := strings.Cut(st.Version, ".")
		minor, _, _ := strings.Cut(rest, ".")
		m, err1 := strconv.Atoi(major)
		n, err2 := strconv.Atoi(minor)
		if err1 == nil && err2 == nil && (m < oldestMajor || m == oldestMajor && n < oldestMinor) {
			return fmt.Errorf("%w: %s runs etcd %s, and %d.%d is the oldest that will do", kv.ErrCorrupt, endpoint, st.Version, oldestMajor, oldestMinor)
		}
		return nil
	}
	return nil
}
