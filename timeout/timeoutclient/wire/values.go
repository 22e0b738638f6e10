// Package wire has the JSON of timeoutd's HTTP API: what package timeoutclient sends and reads, and
// what timeoutd reads and sends. openapi.yaml of timeoutd describes it. Programs have more use for
// timeoutclient.
package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// maxShown is how much of a bad value an error shows.
const maxShown = 60

// maxMillis is the longest duration, in milliseconds.
const maxMillis = math.MaxInt64 / int64(time.Millisecond)

// Each applies f to each element of a list. The result is never nil: JSON would have null for that.
func Each[A, B any](list []A, f func(A) B) []B {
	all := make([]B, len(list))
	for i, one := range list {
		all[i] = f(one)
	}
	return all
}

// maxSeconds is the latest action time in seconds since the epoch. As milliseconds it is in 1978.
const maxSeconds = 253402300799

// Instant is a time. It is written as RFC 3339 in UTC with milliseconds. It is read in that
// form, or as a number of milliseconds since the epoch. The numbers from 1 to 253402300799 are refused:
// as seconds each of them is an action time, and as milliseconds it is one before 1978-01-12. Zero is
// the same time in both units.
type Instant struct{ time.Time }

// MarshalJSON writes the time.
func (i Instant) MarshalJSON() ([]byte, error) {
	return []byte(`"` + i.UTC().Format("2006-01-02T15:04:05.000Z") + `"`), nil
}

// UnmarshalJSON reads either form. The error wraps engine.ErrArgument.
func (i *Instant) UnmarshalJSON(text []byte) error {
	if isNull(text) {
		return nil
	}
	when, err := parseInstant(text)
	if err != nil {
		return err
	}
	if when.IsZero() { // it means none to a center
		return fmt.Errorf("%w: action time %v, must be in the years 1970 to 9999", engine.ErrArgument, when)
	}
	i.Time = when
	return engine.CheckDue(when)
}

func parseInstant(text []byte) (time.Time, error) {
	if text[0] != '"' {
		ms, err := whole(text, "action time")
		if err == nil && ms > 0 && ms <= maxSeconds {
			err = fmt.Errorf("%w: action time %d is %s as seconds since 1970 and %s as milliseconds: milliseconds? It must be a number of them from %d, or as 2026-01-02T15:04:05Z",
				engine.ErrArgument, ms, time.Unix(ms, 0).UTC().Format(time.RFC3339), time.UnixMilli(ms).UTC().Format(time.RFC3339), maxSeconds+1)
		}
		return time.UnixMilli(ms), err
	}
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return time.Time{}, err
	}
	when, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return when, fmt.Errorf("%w: action time %.*q, must be as 2026-01-02T15:04:05Z, or a number of milliseconds since 1970", engine.ErrArgument, maxShown, s)
	}
	return when, nil
}

// Duration is written as in Go. It is read in that form, with days as in engine.ParseDuration, or as a number of
// milliseconds.
type Duration time.Duration

// MarshalJSON writes the duration.
func (d Duration) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, time.Duration(d).String()), nil
}

// UnmarshalJSON reads either form. The error wraps engine.ErrArgument.
func (d *Duration) UnmarshalJSON(text []byte) error {
	if isNull(text) {
		return nil
	}
	if text[0] != '"' {
		ms, err := whole(text, "duration")
		if err == nil && (ms > maxMillis || ms < -maxMillis) {
			err = fmt.Errorf("%w: duration of %d ms, must be at most %d ms", engine.ErrArgument, ms, maxMillis)
		}
		*d = Duration(ms * int64(time.Millisecond))
		return err
	}
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	parsed, err := engine.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("%w: duration %.*q, must be as 1m30s or 2d, or a number of milliseconds", engine.ErrArgument, maxShown, s)
	}
	*d = Duration(parsed)
	return nil
}

func isNull(text []byte) bool { return bytes.Equal(text, []byte("null")) }

// whole reads a whole number.
func whole(text []byte, what string) (int64, error) {
	n, err := strconv.ParseInt(string(text), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%w: %s %.*s, must be a number of milliseconds up to %d", engine.ErrArgument, what, maxShown, text, int64(math.MaxInt64))
	case err != nil:
		return 0, fmt.Errorf("%w: %s %.*s, must be a string or a whole number of milliseconds", engine.ErrArgument, what, maxShown, text)
	}
	return n, nil
}
