// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"crypto/md5" //nolint:gosec // It is what the publishers of images give; whoever wants more gives another one.
	"crypto/sha256"
	"crypto/sha512"
	"encoding"
	"encoding/hex"
	"fmt"
	"hash"
	"net/url"
	"strings"

	"github.com/holdfast-storage/holdfast/api/agentpb"
	"github.com/holdfast-storage/holdfast/internal/agent/mount"
	"github.com/holdfast-storage/holdfast/internal/agent/pool"
	"github.com/holdfast-storage/holdfast/internal/errs"
)

// The formats of images.
const (
	raw   = "raw"
	qcow2 = "qcow2"
)

// check refuses a job that cannot be done anywhere.
func check(j *agentpb.Job) error {
	if err := checkID(j.GetId()); err != nil {
		return err
	}
	refuse := func(format string, args ...any) error {
		return errs.New(errs.Invalid, errs.NoObject, "job %s: "+format, append([]any{j.GetId()}, args...)...)
	}
	if f := j.GetFormat(); f != "" && f != raw && f != qcow2 {
		return refuse("the format %q is not known: it is raw or qcow2", f)
	}
	if _, err := parseChecksum(j.GetChecksum()); err != nil {
		return refuse("%v", err)
	}
	var err error
	switch j.GetKind() {
	case agentpb.Job_COPY:
		if err = checkVolume(j.GetFrom(), true); err == nil {
			err = checkVolume(j.GetTo(), false)
		}
		if err == nil && j.GetFrom().GetSnapshot() == "" && idOf(j.GetFrom()).Fold() == idOf(j.GetTo()).Fold() {
			err = fmt.Errorf("volume %s cannot be copied onto itself", idOf(j.GetTo()))
		}
		if err == nil && j.GetFormat() == qcow2 {
			err = fmt.Errorf("a volume has no format")
		}
	case agentpb.Job_DOWNLOAD:
		if err = checkURL(j.GetUrl()); err == nil {
			err = checkVolume(j.GetTo(), false)
		}
	case agentpb.Job_EXPORT:
		if err = checkVolume(j.GetFrom(), true); err == nil {
			err = checkFile(j.GetTo())
		}
	case agentpb.Job_IMPORT:
		if err = checkFile(j.GetFrom()); err == nil {
			err = checkVolume(j.GetTo(), false)
		}
	default:
		err = fmt.Errorf("what it does is not known")
	}
	if err != nil {
		return refuse("%v", err)
	}
	return nil
}

// checkID refuses what cannot be the name of a file.
func checkID(id string) error {
	const most = 64
	bad := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
	}
	if id == "" || len(id) > most || id[0] == '.' || strings.ContainsFunc(id, bad) {
		return errs.New(errs.Invalid, errs.NoObject, "job id %q is not possible", id).
			Fix("use 1 to %d letters, digits, dots, dashes and underscores, and no dot at the beginning", most)
	}
	return nil
}

func idOf(e *agentpb.JobEnd) pool.ID {
	return pool.ID{Resource: e.GetResource(), Volume: int(e.GetVolume())}
}

func snapshotOf(e *agentpb.JobEnd) pool.SnapshotID {
	return pool.SnapshotID{Resource: e.GetResource(), Volume: int(e.GetVolume()), Snapshot: e.GetSnapshot()}
}

func checkVolume(e *agentpb.JobEnd, snapshot bool) error {
	switch {
	case e.GetPath() != "":
		return fmt.Errorf("a volume is wanted where the file %q is named", e.GetPath())
	case e.GetSnapshot() != "" && !snapshot:
		return fmt.Errorf("snapshot %s cannot be written", e.GetSnapshot())
	case e.GetSnapshot() != "":
		return snapshotOf(e).Validate()
	}
	return idOf(e).Validate()
}

func checkFile(e *agentpb.JobEnd) error {
	if e.GetResource() != "" {
		return fmt.Errorf("a file is wanted where a volume of %q is named", e.GetResource())
	}
	if e.GetPool() == "" {
		return fmt.Errorf("the pool of the file %q is not named", e.GetPath())
	}
	if err := mount.CheckSubpath(e.GetPath()); err != nil {
		return fmt.Errorf("the file %q is not below the folder of its pool", e.GetPath())
	}
	if name := e.GetPath()[strings.LastIndexByte(e.GetPath(), '/')+1:]; strings.HasPrefix(name, ".holdfast") || isVolumeFile(name) {
		return fmt.Errorf("the name %q is for files of the pool itself", name)
	}
	return nil
}

// isVolumeFile tells whether a file pool would take a file of that name for one of its own.
func isVolumeFile(name string) bool {
	stem, _, ok := cutLast(name, ".")
	if !ok {
		return false
	}
	_, volume := pool.ParseName(stem)
	_, snapshot := pool.ParseSnapshotName(stem)
	return volume || snapshot
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return fmt.Errorf("the URL is none: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("the URL %q is none of HTTP or HTTPS", u.Redacted())
	}
	return nil
}

// sum is a checksum that something must have.
type sum struct {
	algorithm string // Empty: any content is right, and SHA-256 is told.
	want      []byte
}

// digest is a hash whose state can be kept.
type digest interface {
	hash.Hash
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}

func (s sum) new() digest {
	var h hash.Hash
	switch s.algorithm {
	case "sha512":
		h = sha512.New()
	case "md5":
		h = md5.New() //nolint:gosec // As above.
	default:
		h = sha256.New()
	}
	return h.(digest) //nolint:forcetypeassert // All of these are.
}

// text is a checksum as it is told.
func (s sum) text(sum []byte) string {
	name := s.algorithm
	if name == "" {
		name = "sha256"
	}
	return name + ":" + hex.EncodeToString(sum)
}

// verify compares what was found with what is wanted.
func (s sum) verify(found []byte) error {
	if s.algorithm != "" && string(found) != string(s.want) {
		return fmt.Errorf("the checksum is %s instead of %s", s.text(found), s.text(s.want))
	}
	return nil
}

// parseChecksum reads a checksum such as sha256:HEX.
func parseChecksum(text string) (sum, error) {
	if text == "" {
		return sum{}, nil
	}
	name, digits, ok := strings.Cut(text, ":")
	s := sum{algorithm: strings.ToLower(name)}
	size := map[string]int{"sha256": sha256.Size, "sha512": sha512.Size, "md5": md5.Size}[s.algorithm]
	if !ok || size == 0 {
		return sum{}, fmt.Errorf("the checksum %q is not understood: give sha256:HEX, sha512:HEX or md5:HEX", text)
	}
	var err error
	if s.want, err = hex.DecodeString(digits); err != nil || len(s.want) != size {
		return sum{}, fmt.Errorf("the checksum %q has not the %d hexadecimal digits of %s", text, 2*size, s.algorithm)
	}
	return s, nil
}
