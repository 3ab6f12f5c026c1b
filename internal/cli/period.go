// Copyright The Holdfast Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"regexp"
	"strconv"
	"time"

	"github.com/spf13/pflag"
)

// period is the flags that say from when and until when.
type period struct{ since, to string }

func (p *period) addTo(f *pflag.FlagSet, sinceShort, toShort string) {
	const form = "a date and time such as '2026-08-30 13:40:00', or how long ago, such as 1d10h or 3h"
	f.StringVarP(&p.since, "since", sinceShort, "", "from when: "+form)
	f.StringVarP(&p.to, "to", toShort, "", "until when: "+form)
}

// bounds returns when the period begins and ends. A zero time is no bound. Times without a date are of a place.
func (p *period) bounds(at *time.Location) (since, to time.Time, err error) {
	if since, err = moment(p.since, "00:00:00", at); err == nil {
		to, err = moment(p.to, "23:59:59", at)
	}
	if err == nil && !since.IsZero() && !to.IsZero() && to.Before(since) {
		err = usagef("--to %s is before --since %s", p.to, p.since)
	}
	return since, to, err
}

// moment reads a time, of which the end may be left out, or how long ago it was.
func moment(text, rest string, at *time.Location) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	ago := regexp.MustCompile(`^(?:(\d{1,5})\s*d(?:ays?)?)?\s*(?:(\d{1,6})\s*h?)?$`)
	if m := ago.FindStringSubmatch(text); m != nil {
		days, _ := strconv.Atoi(m[1])  // Digits, or none.
		hours, _ := strconv.Atoi(m[2]) // The same.
		return time.Now().Add(-time.Duration(days*24+hours) * time.Hour), nil
	}
	const full = "0000-01-01 "
	filled := text
	switch {
	case len(text) < len(full)-1:
		filled += full[len(text):] + rest
	case len(text) < len(full)+len(rest):
		filled += (full + rest)[len(text):]
	}
	t, err := time.ParseInLocation(timeLayout, filled, at)
	if err != nil {
		return time.Time{}, usagef("%q: want a date and time such as '2026-08-30 13:40:00', or how long ago, such as 1d10h or 3h", text)
	}
	return t, nil
}
