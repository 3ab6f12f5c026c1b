// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/holdfast-storage/holdfast/internal/model"
)

// Token lets one host join as one node, once. However it is printed, its secret is not shown:
// see Text.
type Token struct {
	Node        model.NodeName
	Secret      string // letters and digits
	Fingerprint string // of the authority that made it
}

const (
	tokenForm    = "holdfast1"
	secretLength = 26 // of rand.Text: 130 bits
)

// NewToken returns a token with a new secret.
func NewToken(node model.NodeName, fingerprint string) Token {
	return Token{Node: node, Secret: rand.Text(), Fingerprint: fingerprint}
}

// Text returns the whole token in one word, as people hand it on.
func (t Token) Text() string {
	return strings.Join([]string{tokenForm, string(t.Node), t.Secret, t.Fingerprint}, ":")
}

// Format implements fmt.Formatter for all verbs.
func (t Token) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "join token of node "+string(t.Node))
}

// Hash is what is kept of the token where the token itself must not be: it tells nothing of
// the secret.
func (t Token) Hash() string { return HashSecret(t.Secret) }

// HashSecret returns the hash of a token by its secret.
func HashSecret(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// ParseToken reads what Text has written, with blanks around it. Errors do not show the text.
func ParseToken(text string) (Token, error) {
	parts := strings.Split(strings.TrimSpace(text), ":")
	if parts[0] != tokenForm {
		return Token{}, badToken("it does not begin with " + tokenForm)
	}
	if len(parts) != 4 {
		return Token{}, badToken(fmt.Sprintf("it has %d parts instead of 4", len(parts)))
	}
	node, err := model.ParseNodeName(parts[1])
	if err != nil {
		return Token{}, badToken("the name of its node is not valid")
	}
	t := Token{Node: node, Secret: parts[2], Fingerprint: strings.ToLower(parts[3])}
	if len(t.Secret) != secretLength || strings.Trim(t.Secret, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" {
		return Token{}, badToken("its secret is not whole")
	}
	if sum, err := hex.DecodeString(t.Fingerprint); err != nil || len(sum) != sha256.Size {
		return Token{}, badToken("its fingerprint is not whole")
	}
	return t, nil
}

func badToken(why string) error {
	return errors.New("this is not a join token: " + why + "; copy all of what `holdfast node join-token NODE` printed")
}
