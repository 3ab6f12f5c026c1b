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
	"os"
	"strconv"
	"strings"
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
)

// defaultPrefix begins the keys of a cluster that says nothing else.
const defaultPrefix = "/holdfast/"

// Base returns the prefix of all keys, with a slash at its end.
func (s Settings) Base() string {
	return strings.TrimSuffix(cmp.Or(s.Prefix, defaultPrefix), "/") + "/"
}

// Connect makes a client of the cluster. It does not wait for a connection: an etcd that cannot be reached shows at the first
// call. Files that cannot be read are errors.
func Connect(s Settings) (*clientv3.Client, error) {
	if len(s.Endpoints) == 0 {
		return nil, errors.New("etcd: no endpoint is given, for example https://10.0.0.1:2379")
	}
	secure, err := s.tls()
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints:            s.Endpoints,
		TLS:                  secure,
		Username:             s.User,
		Password:             s.Password,
		DialTimeout:          attempt,
		DialKeepAliveTime:    2 * time.Second,
		DialKeepAliveTimeout: 2 * time.Second,
		PermitWithoutStream:  true,
		MaxUnaryRetries:      2,
		Logger:               zap.NewNop(),
	})
	if err != nil {
		return nil, fmt.Errorf("etcd %s: %w", strings.Join(s.Endpoints, ","), explain(err))
	}
	return c, nil
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

// The oldest etcd that has what this package needs.
const (
	oldestMajor = 3
	oldestMinor = 4
)

// suits returns an error when a member says that it is too old. A member that says nothing is no error here: what is done next
// tells why.
func suits(ctx context.Context, c *clientv3.Client) error {
	for _, endpoint := range c.Endpoints() {
		asking, cancel := context.WithTimeout(ctx, attempt)
		st, err := c.Status(asking, endpoint)
		cancel()
		if err != nil {
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
