package engine

import (
	"fmt"
	"regexp"
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
)

var cronParser = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor | cron.DowOrDom | cron.Extended).
	WithMaxSearchYears(searchYears)

// lastDay finds 5L or FRIL at the end of an expression, Quartz's way to write the last Friday of a month.
var lastDay = regexp.MustCompile(`(?i)(\b(?:[0-7]|sun|mon|tue|wed|thu|fri|sat))L$`)

// Schedule says when a periodic task runs again: see Topic.Every.
type Schedule struct {
	interval time.Duration // or zero
	cron     *expression   // or nil
}

// ParseSchedule reads the text of Topic.Every. The error wraps ErrArgument.
func ParseSchedule(text string) (Schedule, error) {
	if len(text) > MaxSchedule {
		return Schedule{}, fmt.Errorf("%w: Every has %d bytes, must have at most %d", ErrArgument, len(text), MaxSchedule)
	}
	if interval, err := ParseDuration(text); err == nil {
		return scheduleOf(text, interval)
	}
	expression := lastDay.ReplaceAllString(text, "${1}#L")
	zone, every, _ := strings.Cut(text, "@every ")
	interval, err := ParseDuration(every)
	if err == nil { // the parser knows no days
		expression = zone + "@every " + interval.String()
	}
	parsed, err := cronParser.Parse(expression)
	if err != nil {
		return Schedule{}, fmt.Errorf("%w: Every %q, must be a duration or a cron expression: %w", ErrArgument, text, err)
	}
	switch parsed := parsed.(type) {
	case cron.ConstantDelaySchedule: // without parts of a second
		return scheduleOf(text, interval)
	case *cron.SpecSchedule:
		e := newExpression(parsed)
		if e.next(time.Unix(0, 0).UTC()).IsZero() {
			return Schedule{}, fmt.Errorf("%w: Every %q, must have a time within %d years", ErrArgument, text, searchYears)
		}
		return Schedule{cron: e}, nil
	}
	return Schedule{}, fmt.Errorf("%w: Every %q, must be a duration or a cron expression", ErrArgument, text)
}

// checkZone refuses the zone of the machine: each node may have another one, and it is not honoured. A topic stored by an
// earlier version may have it, and is in UTC.
func checkZone(text string) error {
	name, zone, _ := strings.Cut(text, "=")
	zone, _, _ = strings.Cut(zone, " ")
	if (name == "TZ" || name == "CRON_TZ") && (strings.EqualFold(zone, "Local") || strings.EqualFold(zone, "localtime")) {
		return fmt.Errorf("%w: Every %q, must have UTC or a zone such as Europe/Berlin: each node may have another local one", ErrArgument, text)
	}
	return nil
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
	after := due.UTC()
	if late > 0 {
		after = now.UTC()
	}
	if next := s.cron.next(after); !next.IsZero() {
		return next
	}
	return after.AddDate(1, 0, 0) // ParseSchedule lets no such expression pass
}

// Has reports whether a task with the action time due, which is after now, may wait for a time of the schedule. An
// interval has no times of its own: it may be any up to an interval from now.
func (s Schedule) Has(due, now time.Time) bool {
	if s.cron == nil {
		return due.Sub(now) <= s.interval
	}
	return s.cron.next(due.UTC().Add(-1)).Equal(due)
}

// Instead returns the action time of a task that waits until due, after now, for a time of another schedule. It is the
// first time of a cron expression after now. By an interval it is due, or so many intervals before that at most one
// is left.
func (s Schedule) Instead(due, now time.Time) time.Time {
	if s.cron != nil {
		return s.Next(now, now)
	}
	if wait := due.Sub(now); wait > s.interval {
		due = due.Add(-(wait - 1).Truncate(s.interval))
	}
	return due
}
