package engine

import (
	"time"

	"github.com/netresearch/go-cron"
)

// expression is a cron expression and its zone. The library looks for times in UTC, without any steps of the
// clocks. The steps are ours: it loses days in zones that put their clocks forward at midnight.
type expression struct {
	utc      *cron.SpecSchedule
	zone     *time.Location
	eachHour bool // there is a star for the hours
}

func newExpression(parsed *cron.SpecSchedule) *expression {
	const star = 1 << 63 // the library's bit for it
	e := &expression{utc: parsed, zone: parsed.Location, eachHour: parsed.Hour&star != 0}
	if e.zone == time.Local { // of an expression without a zone
		e.zone = time.UTC
	}
	parsed.Location = time.UTC
	return e
}

// next returns the first time of the expression after an instant, in UTC, or the zero time. It goes through the
// stretches of time in which the clocks of the zone make no step.
func (e *expression) next(after time.Time) time.Time {
	for {
		now := after.Add(1).In(e.zone)
		begin, end := now.ZoneBounds()
		if !end.IsZero() && !end.After(now) { // package time has a leap year end a day too soon
			end = now.Truncate(24 * time.Hour).Add(24 * time.Hour)
		}
		ahead := aheadOfUTC(now)
		before := ahead // in the stretch before
		if !begin.IsZero() {
			before = aheadOfUTC(begin.Add(-1).In(e.zone))
		}

		clock := after.Add(ahead)
		if before > ahead && !e.eachHour { // the clocks show some times once more, and they count once
			clock = later(clock, begin.UTC().Add(before-1))
		}
		shown := e.utc.Next(clock)
		if shown.IsZero() {
			return shown
		}
		next := shown.Add(-ahead)
		if before < ahead && !e.eachHour { // the clocks have skipped some times, and they come later by the step
			skipped := e.utc.Next(later(after, begin.UTC().Add(-1)).Add(before))
			if at := skipped.Add(-before); skipped.Before(begin.UTC().Add(ahead)) && at.Before(next) {
				next = at
			}
		}
		if end.IsZero() || next.Before(end) {
			return next
		}
		after = end.UTC().Add(-1)
	}
}

// aheadOfUTC returns how far the clocks of t's zone are ahead of UTC.
func aheadOfUTC(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
