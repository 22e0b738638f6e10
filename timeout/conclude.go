package timeout

import (
	"errors"
	"math/rand/v2"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// conclude returns the outcome of an attempt after its handler has returned failure.
func conclude(topic Topic, token Token, attempts int, failure error) engine.Outcome {
	outcome := engine.Outcome{Token: token, As: Done}
	if failure == nil {
		return outcome
	}
	if after, again := againDelay(failure); again {
		outcome.As, outcome.After, outcome.Anew = Pending, after, true
		return outcome
	}
	outcome.Error = clip(failure.Error())
	if IsPermanent(failure) || attempts >= topic.Attempts() {
		outcome.As = Dead
		return outcome
	}
	outcome.As = Pending
	wait, asked := RetryDelay(failure)
	if !asked {
		wait = retryWait(topic, attempts)
	}
	outcome.After = wait
	return outcome
}

// retryWait returns the wait after so many attempts: Topic.Backoff, twice that, and so on up to
// BackoffMax, less a random part of up to a half. So tasks failing together do not come back
// together ("equal jitter").
func retryWait(topic Topic, attempts int) time.Duration {
	topic = topic.WithDefaults()
	wait := topic.BackoffMax
	if doublings := max(attempts, 1) - 1; doublings < 40 && topic.Backoff<<doublings>>doublings == topic.Backoff {
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

// The causes at the end of a handler's context.
var (
	// ErrLeaseLost is the cause if the task is no longer this handler's.
	ErrLeaseLost = errors.New("timeout: lease lost")

	// ErrStopping is the cause if Run ends and its grace is over.
	ErrStopping = errors.New("timeout: centre stopping")

	// ErrTimeout is the cause if Topic.Timeout has passed.
	ErrTimeout = errors.New("timeout: handler took too long")
)
