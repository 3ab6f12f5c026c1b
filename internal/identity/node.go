// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"crypto/x509"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/model"
)

// Node is whom a certificate names. Another node that gets the same name later has another
// UUID, and each join of a node another number: the certificate is of none of these.
type Node struct {
	Name  model.NodeName
	UUID  string
	Joins uint64
}

const (
	scheme = "holdfast"
	host   = "node"
)

// URI is how a certificate names a node: holdfast://node/NAME/UUID/JOINS.
func (n Node) URI() *url.URL {
	joins := strconv.FormatUint(n.Joins, 10)
	return &url.URL{
		Scheme: scheme, Host: host,
		Path:    "/" + string(n.Name) + "/" + n.UUID + "/" + joins,
		RawPath: "/" + string(n.Name) + "/" + url.PathEscape(n.UUID) + "/" + joins,
	}
}

// NodeOf returns whom a certificate names. It does not verify the certificate.
func NodeOf(c *x509.Certificate) (Node, error) {
	if len(c.URIs) != 1 {
		return Node{}, fmt.Errorf("the certificate names %d nodes instead of one", len(c.URIs))
	}
	return parseURI(c.URIs[0])
}

func parseURI(u *url.URL) (Node, error) {
	bad := fmt.Errorf("the certificate names %q, which is no node", u)
	parts := strings.Split(strings.TrimPrefix(u.EscapedPath(), "/"), "/")
	if u.Scheme != scheme || u.Host != host || len(parts) != 3 {
		return Node{}, bad
	}
	name, err := model.ParseNodeName(parts[0])
	if err != nil {
		return Node{}, bad
	}
	uuid, err := url.PathUnescape(parts[1])
	if err != nil || uuid == "" {
		return Node{}, bad
	}
	joins, err := strconv.ParseUint(parts[2], 10, 64)
	if err != nil {
		return Node{}, bad
	}
	return Node{Name: name, UUID: uuid, Joins: joins}, nil
}
