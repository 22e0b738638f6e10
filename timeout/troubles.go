package timeout

import (
	"errors"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// newBackoff returns the waits for a failing part of the engine. Calls of a part that is known to be away cost nothing, so it
// is asked more often than a whole engine.
func newBackoff(part int) *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = 20*time.Millisecond, 5*time.Second
	if part > 0 {
		b.MaxInterval = time.Second
	}
	return b
}

// answered records the result of a call of a part. It logs the first failure, and lets a failing part be asked less and less
// often. l.mu must be held.
func (l *leaser) answered(p *part, err error, now time.Time) {
	switch {
	case err == nil:
		if p.failing != nil {
			l.logger(p).Info("timeout: the engine answers again")
		}
		p.failing, p.until = nil, time.Time{}
		p.backoff.Reset()
		return
	case errors.Is(err, ErrNotFound):
		l.c.look() // whether there is such a topic
		p.until = now.Add(l.c.cfg.Poll)
		return
	case p.failing == nil:
		l.logger(p).Warn("timeout: the engine fails, and is asked again", "err", err)
		p.failing = err
	}
	if p.until = now.Add(p.backoff.NextBackOff()); errors.Is(err, engine.ErrPartial) {
		p.until = time.Time{} // what does answer is asked as ever
	}
}

// logger returns the logger for a part of the engine.
func (l *leaser) logger(p *part) *slog.Logger {
	log := l.c.cfg.Logger.With("topic", l.name)
	if p.number > 0 {
		log = log.With("part", p.number)
	}
	return log
}
