// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-storage/holdfast/internal/identity"
	"github.com/holdfast-storage/holdfast/internal/model"
)

var fingerprint = strings.Repeat("0123456789abcdef", 4)

func TestATokenReadsBackAsItWasWritten(t *testing.T) {
	for _, node := range []model.NodeName{"n1", "Host-7.example.org", "10.0.0.1"} {
		want := identity.NewToken(node, fingerprint)
		for _, text := range []string{want.Text(), "  " + want.Text() + "\n"} {
			got, err := identity.ParseToken(text)
			if err != nil || got != want {
				t.Errorf("%q: got %#v, %v", text, got, err)
			}
		}
	}
}

func TestTokensDiffer(t *testing.T) {
	if a, b := identity.NewToken("n1", fingerprint), identity.NewToken("n1", fingerprint); a.Secret == b.Secret || a.Hash() == b.Hash() {
		t.Error("two tokens have one secret")
	}
}

func TestAPrintedTokenDoesNotShowItsSecret(t *testing.T) {
	token := identity.NewToken("n1", fingerprint)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		if text := fmt.Sprintf(verb, token); strings.Contains(text, token.Secret) || strings.Contains(text, fmt.Sprintf("%x", token.Secret)) {
			t.Errorf("%s shows %s", verb, text)
		}
	}
}

func TestTextsThatAreNoTokensAreRefusedWithoutShowingThem(t *testing.T) {
	good := identity.NewToken("n1", fingerprint)
	for name, text := range map[string]string{
		"empty":             "",
		"another form":      strings.Replace(good.Text(), "holdfast1", "holdfast2", 1),
		"cut off":           good.Text()[:len(good.Text())-1],
		"cut off early":     "holdfast1:n1:" + good.Secret,
		"too long":          good.Text() + ":x",
		"no node":           strings.Replace(good.Text(), ":n1:", "::", 1),
		"a bad node":        strings.Replace(good.Text(), ":n1:", ":n 1:", 1),
		"a short secret":    strings.Replace(good.Text(), good.Secret, good.Secret[1:], 1),
		"a bad secret":      strings.Replace(good.Text(), good.Secret, strings.Repeat("0", 26), 1),
		"a bad fingerprint": strings.Replace(good.Text(), fingerprint, strings.Repeat("x", 64), 1),
		"two lines":         good.Text() + "\n" + good.Text(),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := identity.ParseToken(text)
			if err == nil || !containsAll(err.Error(), "not a join token", "holdfast node join-token") {
				t.Fatalf("got %v", err)
			}
			if strings.Contains(err.Error(), good.Secret[1:]) {
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add(identity.NewToken("n1", fingerprint).Text())
	f.Add("holdfast1:n1::")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		token, err := identity.ParseToken(text)
		if err != nil {
			return
		}
		again, err := identity.ParseToken(token.Text())
		if err != nil || again != token {
			t.Errorf("%q reads as %#v, which reads as %#v, %v", text, token, again, err)
		}
	})
}

func TestACertificateNamesItsNodeExactly(t *testing.T) {
	c := newController(t)
	rapid.Check(t, func(r *rapid.T) {
		want := identity.Node{
			Name:  model.NodeName(rapid.StringMatching(`[a-zA-Z0-9]{2,20}(\.[a-z0-9]{1,10}(-[a-z]){0,2}){0,3}`).Draw(r, "name")),
			UUID:  rapid.StringMatching(`[ -~]{1,40}`).Draw(r, "uuid"),
			Joins: rapid.Uint64().Draw(r, "joins"),
		}
		got, err := identity.NodeOf(certificateNaming(t, c, want.URI().String()))
		if err != nil || got != want {
			r.Fatalf("%#v reads back as %#v, %v", want, got, err)
		}
	})
}

func FuzzNodeOf(f *testing.F) {
	f.Add("holdfast://node/n1/5a793cbf-1ecb-43f6-9b54-fd3958f9b006/1")
	f.Add("holdfast://node/n1/%2F/1")
	f.Add("holdfast://node//x/1")
	f.Add("holdfast://node/n1/x/-1")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := identity.NodeOf(naming(text))
		if err != nil {
			return
		}
		again, err := identity.NodeOf(naming(got.URI().String()))
		if err != nil || again != got {
			t.Errorf("%q names %#v, which is written so that it names %#v, %v", text, got, again, err)
		}
	})
}
