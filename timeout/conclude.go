package timeout

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// conclude returns the outcome of an attempt at a task after its handler has returned failure. The
// schedule is that of Topic.Every, or nil. The engine's clock shows now, or a little more.
func conclude(topic Topic, schedule *engine.Schedule, task Task, now time.Time, failure error) engine.Outcome {
	topic = topic.With(task.Options)
	if after, again := againDelay(failure); again {
		return engine.Outcome{As: Pending, After: after, NewRun: true}
	}
	var next time.Time // when a periodic task runs again
	if schedule != nil {
		next = schedule.Next(task.Due, now)
	}
	if failure == nil && schedule != nil {
		return engine.Outcome{As: Pending, Due: next, NewRun: true}
	}
	if failure == nil {
		return engine.Outcome{As: Done}
	}
	text := clip(failure.Error())
	if isPermanent(failure) {
		return engine.Outcome{As: Dead, Error: text}
	}
	wait, asked := RetryDelay(failure)
	if !asked {
		wait = retryWait(topic, task.Attempts)
	}
	uncounted := errors.Is(failure, ErrUncounted)
	switch last := isLast(topic, task.Attempts) && !uncounted; {
	case schedule != nil && (last || !now.Add(wait).Before(next)):
		return engine.Outcome{As: Pending, Due: next, NewRun: true, Release: uncounted, Error: cmp.Or(text, "timeout: failed")}
	case uncounted:
		return engine.Outcome{As: Pending, After: wait, Release: true}
	case last:
		return engine.Outcome{As: Dead, Error: text}
	}
	return engine.Outcome{As: Pending, After: wait, Error: text}
}

// retries reports whether the outcome of an attempt depends on how many the task has had.
func retries(failure error) bool {
	_, again := againDelay(failure)
	return failure != nil && !again && !isPermanent(failure)
}

// isLast reports whether a task has no attempt left after so many, or a run of a periodic one.
func isLast(topic Topic, attempts int) bool { return attempts > max(topic.WithDefaults().Retries, 0) }

// scheduleOf returns the schedule of Topic.Every, or nil.
func scheduleOf(topic Topic) (*engine.Schedule, error) {
	if topic.Every == "" {
		return nil, nil
	}
	schedule, err := engine.ParseSchedule(topic.Every)
	return &schedule, err
}

// expired returns the outcome of a task that is leased and must not be run, and whether it is one: its last attempt ended
// with its lease, or its NotAfter has passed.
func expired(topic Topic, schedule *engine.Schedule, one *Leased, now time.Time) (engine.Outcome, bool) {
	failure, over := tooLate(one.Task, now), isLast(topic.With(one.Options), one.Attempts-1)
	switch {
	case failure != nil:
	case over:
		failure = errors.New(cmp.Or(one.Error, "timeout: a lease ended"))
	default:
		return engine.Outcome{}, false
	}
	outcome := conclude(topic, schedule, one.Task, now, failure)
	outcome.Token, outcome.Release = one.Token, over // the log has that attempt
	return outcome, true
}

// tellDead calls Config.OnDead for the tasks that are dead by outcomes that have had an effect.
func (c *Center) tellDead(outcomes []engine.Outcome, settled []bool) {
	if c.cfg.OnDead == nil {
		return
	}
	for i, outcome := range outcomes {
		if outcome.As != Dead || i >= len(settled) || !settled[i] {
			continue
		}
		if err := protect(func() error { c.cfg.OnDead(outcome.Token.Key, outcome.Error); return nil }); err != nil {
			c.cfg.Logger.Error("timeout: OnDead", "key", outcome.Token.Key, "err", err)
		}
	}
}

// tooLate returns an error if the task may not begin any more.
func tooLate(task Task, now time.Time) error {
	if task.Options.NotAfter.IsZero() || !now.After(task.Options.NotAfter) {
		return nil
	}
	return Permanent(fmt.Errorf("timeout: not begun before NotAfter, %v", task.Options.NotAfter.UTC()))
}

// retryWait returns the wait after so many attempts: Topic.Backoff, twice that, and so on up to
// BackoffMax, less a random part of up to a half. So tasks failing together do not come back
// together ("equal jitter").
func retryWait(topic Topic, attempts int) time.Duration {
	topic = topic.WithDefaults()
	wait := topic.BackoffMax
	if doublings := max(attempts, 1) - 1; topic.Backoff<<doublings>>doublings == topic.Backoff {
		wait = min(wait, topic.Backoff<<doublings)
	}
	return wait - jitter(wait/2)
}

// jitter returns a random duration of less than d, or 0.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}

// clip cuts a text to MaxError bytes, between characters, and makes it valid for every engine.
func clip(text string) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\uFFFD"), "\uFFFD")
	if len(text) <= engine.MaxError {
		return text
	}
	end := engine.MaxError
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
