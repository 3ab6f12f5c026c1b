// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"github.com/holdfast-storage/holdfast/client"
)

// credentials are the flags that say who asks, and which controllers are believed.
type credentials struct {
	user          string
	password      string
	tokenFile     string
	certFile      string
	keyFile       string
	caFile        string
	allowInsecure bool
}

func (c *credentials) addTo(f *pflag.FlagSet) {
	f.StringVar(&c.user, "user", "", "name of the user (also -u)")
	f.StringVar(&c.password, "password", "", "password of the user (also -P); others on this host can see it")
	f.StringVar(&c.tokenFile, "token-file", "", "file with a token to show to the controller; HOLDFAST_TOKEN has one, too")
	f.StringVar(&c.certFile, "certfile", "", "file with the certificate to show to the controller (PEM)")
	f.StringVar(&c.keyFile, "keyfile", "", "file with the key of the certificate (PEM; default the file of the certificate)")
	f.StringVar(&c.caFile, "cafile", "", "file with the authorities that are believed, instead of those of this host (PEM)")
	f.BoolVar(&c.allowInsecure, "allow-insecure-auth", false, "send a password or a token also without TLS")
}

// authorized returns what the flags about credentials say.
func (a *app) authorized(addresses []string) ([]client.Option, error) {
	c := &a.globals.credentials
	var options []client.Option
	token := a.env.Getenv("HOLDFAST_TOKEN")
	if c.tokenFile != "" {
		body, err := a.env.ReadFile(c.tokenFile)
		if err != nil {
			return nil, usagef("--token-file: %w", err)
		}
		token = strings.TrimSpace(string(body))
	}
	if c.password != "" && c.user == "" {
		return nil, usagef("--password is of a user: give --user, too")
	}
	if token != "" && c.user != "" {
		return nil, usagef("--user and a token exclude each other")
	}
	if (token != "" || c.user != "") && !c.allowInsecure {
		if open := inTheOpen(addresses); open != "" {
			return nil, usagef("%s is not asked by https, and everybody on the way could read the secret: write https://%s, or give --allow-insecure-auth", open, open)
		}
	}
	if token != "" {
		options = append(options, client.WithToken(token))
	}
	if c.user != "" {
		options = append(options, client.WithBasicAuth(c.user, c.password))
	}
	settings, err := a.tls()
	if err != nil {
		return nil, err
	}
	if settings != nil {
		options = append(options, client.WithTLS(settings))
	}
	return options, nil
}

// tls returns the settings of the flags, or nil without any.
func (a *app) tls() (*tls.Config, error) {
	c := &a.globals.credentials
	if c.keyFile != "" && c.certFile == "" {
		return nil, usagef("--keyfile is of a certificate: give --certfile, too")
	}
	if c.certFile == "" && c.caFile == "" {
		return nil, nil
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.caFile != "" {
		body, err := a.env.ReadFile(c.caFile)
		if err != nil {
			return nil, usagef("--cafile: %w", err)
		}
		settings.RootCAs = x509.NewCertPool()
		if !settings.RootCAs.AppendCertsFromPEM(body) {
			return nil, usagef("--cafile: %s holds no certificate in PEM form", c.caFile)
		}
	}
	if c.certFile != "" {
		certificate, err := a.env.ReadFile(c.certFile)
		if err != nil {
			return nil, usagef("--certfile: %w", err)
		}
		key := certificate
		if c.keyFile != "" {
			if key, err = a.env.ReadFile(c.keyFile); err != nil {
				return nil, usagef("--keyfile: %w", err)
			}
		}
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			return nil, usagef("--certfile %s: %w", c.certFile, err)
		}
		settings.Certificates = []tls.Certificate{pair}
	}
	return settings, nil
}

// inTheOpen returns an address that is asked without TLS over a network, or "".
func inTheOpen(addresses []string) string {
	for _, address := range addresses {
		scheme, rest, has := strings.Cut(address, "://")
		if !has {
			scheme, rest = "http", address
		}
		if scheme == "https" || scheme == "linstor+ssl" {
			continue
		}
		host := rest
		if u, err := url.Parse("http://" + rest); err == nil {
			host = u.Hostname()
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return rest
		}
	}
	return ""
}
