// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-storage/holdfast/internal/kv"
)

const day = 24 * time.Hour

// running runs the keeper of a host until the answer is called.
func running(h *host) (stop func()) {
	ctx, cancel := context.WithCancel(h.t.Context())
	var ended sync.WaitGroup
	ended.Go(func() { h.Run(ctx) })
	return func() {
		cancel()
		ended.Wait()
	}
}

// pass lets time pass.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (h *host) serial() string {
	h.t.Helper()
	c, err := h.Credential()
	if err != nil {
		h.t.Fatal(err)
	}
	return c.Certificate.SerialNumber.String()
}

func TestACertificateIsRenewedAtTwoThirdsOfItsLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newController(t)
		h := joinedHost(t, c, "n1")
		defer running(h)()
		serials := map[string]bool{}
		for d := range 200 {
			if err := h.report("n1"); err != nil {
				t.Fatalf("on day %d: %v", d, err)
			}
			credential, err := h.Credential()
			if err != nil {
				t.Fatal(err)
			}
			if left := time.Until(credential.Certificate.NotAfter); left < 28*day {
				t.Fatalf("on day %d the certificate is good for %s more only", d, left)
			}
			serials[credential.Certificate.SerialNumber.String()] = true
			pass(day)
		}
		if len(serials) != 4 {
			t.Errorf("in 200 days there were %d certificates, want one each 60 days", len(serials))
		}
	})
}

func TestARenewalIsMadeUpForWhenTheControllerIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newController(t)
		h := joinedHost(t, c, "n1")
		defer running(h)()
		first := h.serial()
		pass(59 * day)
		c.stop()
		pass(20 * day)
		if h.serial() != first {
			t.Fatal("renewed without a controller")
		}
		if !h.logged("could not be renewed")() || !h.logged("more")() {
			t.Errorf("the log does not say so: %s", h.log)
		}
		c.start(c.authority.ServerOptions()...)
		pass(2 * time.Hour)
		if h.serial() == first {
			t.Error("not renewed two hours after the controller came back")
		}
		if err := h.report("n1"); err != nil {
			t.Error(err)
		}
	})
}

func TestRenewingWorksWhileTheDatabaseTakesNoWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newController(t)
		h := joinedHost(t, c, "n1")
		first := h.serial()
		defer running(h)()
		pass(59 * day)
		c.engine.Fail(kv.ErrFull)
		if _, _, err := c.authority.NewToken(t.Context(), "n1", 0); err == nil {
			t.Fatal("the database takes writes")
		}
		pass(2 * day)
		if h.serial() == first {
			t.Errorf("not renewed: %s", h.log)
		}
	})
}

func TestJoiningWaitsForADatabaseThatTakesNoWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newController(t)
		c.register("n1")
		h := newHost(t, c, "n1", c.token("n1").Text())
		c.engine.Fail(kv.ErrFull)
		defer running(h)()
		pass(time.Hour)
		if h.joined() || !h.logged("cannot be written")() {
			t.Errorf("joined: %v; the log: %s", h.joined(), h.log)
		}
		c.engine.Fail(nil)
		pass(2 * time.Minute)
		if !h.joined() {
			t.Errorf("not joined two minutes after the database took writes again: %s", h.log)
		}
	})
}

func TestANewTokenIsTakenUpWhileTheOldCertificateIsGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newController(t)
		h := joinedHost(t, c, "n1")
		first := h.serial()
		h.conf.TokenFile = filepath.Join(h.dir, "token")
		h.restart()
		defer running(h)()
		pass(time.Hour)
		if h.serial() != first {
			t.Fatal("joined without a new token")
		}
		mustWrite(t, h.conf.TokenFile, []byte(c.token("n1").Text()))
		pass(5 * time.Second)
		if h.serial() == first {
			t.Errorf("not joined within 5 seconds: %s", h.log)
		}
		again := h.serial()
		pass(time.Hour)
		if h.serial() != again {
			t.Error("joined by the same token once more")
		}
	})
}

func TestARefusedTokenIsNotTriedAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newController(t)
		c.register("n1")
		old := c.token("n1")
		c.token("n1")
		var tries int
		h := newHost(t, c, "n1", old.Text())
		h.conf.Now = func() time.Time { return time.Now() }
		h.conf.Options = append(h.conf.Options, counting(&tries))
		h.restart()
		defer running(h)()
		pass(time.Hour)
		if tries < 2 || tries > 10 {
			t.Errorf("in an hour the host has asked %d times", tries)
		}
	})
}

func TestANodeWhoseClockIsAheadDoesNotRenewAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newController(t)
		h := joinedHost(t, c, "n1")
		var tries int
		h.conf.Now = func() time.Time { return time.Now().Add(80 * day) }
		h.conf.Options = append(h.conf.Options, counting(&tries))
		h.restart()
		defer running(h)()
		pass(day)
		if tries < 1 || tries > 25 {
			t.Errorf("in a day the host has asked %d times", tries)
		}
	})
}

func TestTheControllersOwnCertificateIsRenewedWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newController(t)
		h := joinedHost(t, c, "n1")
		defer running(h)()
		for range 14 {
			pass(30 * day)
			if err := h.report("n1"); err != nil {
				t.Fatal(err)
			}
		}
		for _, e := range c.authority.Expiries() {
			if left := time.Until(e.At); left < 25*day {
				t.Errorf("after 14 months the certificate of %s %s is good for %s", e.Of, e.Node, left)
			}
		}
	})
}

func TestTheTimesOfExpiryAreThereForMetrics(t *testing.T) {
	c := newController(t)
	h := joinedHost(t, c, "n1")
	joinedHost(t, c, "n2")
	if err := h.report("n1"); err != nil {
		t.Fatal(err)
	}
	own, err := h.Expires()
	if err != nil {
		t.Fatal(err)
	}
	list := c.authority.Expiries()
	if len(list) != 3 || list[0].Of != "authority" || list[1].Of != "controller" || list[2].Of != "node" || list[2].Node != "n1" || !list[2].At.Equal(own) {
		t.Errorf("got %v, want those of the authority, the controller and n1", list)
	}
	c.remove("n1")
	if list := c.authority.Expiries(); len(list) != 2 {
		t.Errorf("the node is gone, and the list is %v", list)
	}
	if _, err := newHost(t, c, "n3", "").Expires(); err == nil {
		t.Error("a host without a certificate knows when it expires")
	}
}
