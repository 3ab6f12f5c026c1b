// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// ServerName is the name that a controller's certificate is good for, whatever its address.
const ServerName = "holdfast-controller"

// NewKey makes a private key of the kind that all certificates have: ECDSA on P-256.
func NewKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// Request returns a request for a certificate of key, in the DER of a PKCS 10 request. It names nobody: the
// authority decides whom the certificate names.
func Request(key *ecdsa.PrivateKey) ([]byte, error) {
	return x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{}}, key)
}

// Fingerprint is the SHA-256 of the public key of a certificate, hexadecimal.
func Fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}

// Credential is the identity of a node, as its agent has it. It is immutable.
type Credential struct {
	Node        Node
	Key         *ecdsa.PrivateKey
	Certificate *x509.Certificate
	Authorities []*x509.Certificate // that are trusted; at least one
}

// NewCredential puts a credential together. Errors: the key is not that of the certificate,
// the certificate names no node or is from none of the authorities.
func NewCredential(key *ecdsa.PrivateKey, certificate *x509.Certificate, authorities []*x509.Certificate) (Credential, error) {
	node, err := NodeOf(certificate)
	if err != nil {
		return Credential{}, err
	}
	if !key.PublicKey.Equal(certificate.PublicKey) {
		return Credential{}, errors.New("the private key is not that of the certificate")
	}
	c := Credential{Node: node, Key: key, Certificate: certificate, Authorities: authorities}
	if _, err := certificate.Verify(x509.VerifyOptions{
		Roots: pool(authorities), CurrentTime: certificate.NotAfter, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err != nil {
		return Credential{}, fmt.Errorf("the certificate is from none of the authorities beside it: %w", err)
	}
	return c, nil
}

// Parse puts together a credential from what the authority answered with, in DER.
func Parse(key *ecdsa.PrivateKey, certificate []byte, authorities [][]byte) (Credential, error) {
	leaf, err := x509.ParseCertificate(certificate)
	if err != nil {
		return Credential{}, err
	}
	list := make([]*x509.Certificate, len(authorities))
	for i, der := range authorities {
		if list[i], err = x509.ParseCertificate(der); err != nil {
			return Credential{}, err
		}
		if !list[i].IsCA {
			return Credential{}, fmt.Errorf("the certificate of %s is beside it, which is none of the authorities", list[i].Subject)
		}
	}
	return NewCredential(key, leaf, list)
}

// Due is when the certificate should be renewed: at two thirds of its life.
func (c Credential) Due() time.Time {
	life := c.Certificate.NotAfter.Sub(c.Certificate.NotBefore)
	return c.Certificate.NotBefore.Add(life / 3 * 2)
}

func (c Credential) tls() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{c.Certificate.Raw}, PrivateKey: c.Key, Leaf: c.Certificate}
}

func pool(certificates []*x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	for _, c := range certificates {
		p.AddCert(c)
	}
	return p
}
