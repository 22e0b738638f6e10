package engine

import (
	"fmt"
	"strings"
	"time"

	"github.com/netresearch/go-cron"
)

const (
	// MinEvery is the shortest interval of a Schedule.
	MinEvery = time.Second

	// MaxSchedule is the greatest length of the text of a Schedule, in bytes.
	MaxSchedule = 200

	// searchYears is how far ahead a cron expression must have a time. Between two 29ths of February
	// there can be eight years.
	searchYears = 9

	// anyHour is the bit of a star in the hours of a cron expression.
	anyHour = 1 << 63
)

var cronParser = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor | cron.DowOrDom).
	WithMaxSearchYears(searchYears)

// Schedule says when a periodic task runs again: see Topic.Every.
type Schedule struct {
	interval time.Duration      // or zero
	cron     *cron.SpecSchedule // or nil
}

// ParseSchedule reads the text of Topic.Every. The error wraps ErrArgument.
func ParseSchedule(text string) (Schedule, error) {
	if len(text) > MaxSchedule {
		return Schedule{}, fmt.Errorf("%w: Every has %d bytes, must have at most %d", ErrArgument, len(text), MaxSchedule)
	}
	if interval, err := time.ParseDuration(text); err == nil {
		return scheduleOf(text, interval)
	}
	parsed, err := cronParser.Parse(text)
	if err != nil {
		return Schedule{}, fmt.Errorf("%w: Every %q, must be a duration or a cron expression: %w", ErrArgument, text, err)
	}
	switch parsed := parsed.(type) {
	case cron.ConstantDelaySchedule: // the parser can read the duration, but drops parts of a second
		_, every, _ := strings.Cut(text, "@every ")
		interval, _ := time.ParseDuration(every)
		return scheduleOf(text, interval)
	case *cron.SpecSchedule:
		if parsed.Next(time.Unix(0, 0).UTC()).IsZero() {
			return Schedule{}, fmt.Errorf("%w: Every %q, must have a time within %d years", ErrArgument, text, searchYears)
		}
		return Schedule{cron: parsed}, nil
	}
	return Schedule{}, fmt.Errorf("%w: Every %q, must be a duration or a cron expression", ErrArgument, text)
}

func scheduleOf(text string, interval time.Duration) (Schedule, error) {
	if interval < MinEvery || interval > MaxDuration {
		return Schedule{}, fmt.Errorf("%w: Every %q, must be from %v to %v", ErrArgument, text, MinEvery, MaxDuration)
	}
	return Schedule{interval: time.Duration(CeilMillis(interval)) * time.Millisecond}, nil
}

// Next returns the action time of the run after one with the action time due, if that one ends at
// now. It is the first time of the schedule after both, so missed times are skipped. An interval
// counts from due.
func (s Schedule) Next(due, now time.Time) time.Time {
	late := now.Sub(due)
	if s.cron == nil {
		return due.Add(max(late, 0).Truncate(s.interval) + s.interval)
	}
	next := due
	if late > 0 {
		next = now
	}
	next = next.UTC() // the zone of an expression without one
	for {
		from := next
		if next = s.cron.Next(from); next.IsZero() {
			return from.AddDate(1, 0, 0) // ParseSchedule lets no such expression pass
		}
		if s.cron.Hour&anyHour != 0 || !repeated(next.In(s.zone())) {
			return next.UTC()
		}
	}
}

func (s Schedule) zone() *time.Location {
	if s.cron.Location == time.Local {
		return time.UTC
	}
	return s.cron.Location
}

// repeated reports whether the clocks of t's zone showed the same time once before, since they were
// put back in between.
func repeated(t time.Time) bool {
	const longest = 3 * time.Hour // of the steps of a zone
	_, now := t.Zone()
	_, before := t.Add(-longest).Zone()
	if before <= now {
		return false
	}
	_, then := t.Add(time.Duration(now-before) * time.Second).Zone()
	return then == before
}
