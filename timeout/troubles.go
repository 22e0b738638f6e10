package timeout

import (
	"errors"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// troubles handles failures of a part of the engine: it logs the first, and lets it be asked less and less often.
type troubles struct {
	backoff *backoff.ExponentialBackOff
	until   time.Time // when it may be asked again; zero after an answer
	failing error     // the first failure
}

// newTroubles returns those of a part of the engine. Calls of a part that is known to be away cost nothing, so it is asked more
// often than a whole engine.
func newTroubles(part int) troubles {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = 20*time.Millisecond, 5*time.Second
	if part > 0 {
		b.MaxInterval = time.Second
	}
	return troubles{backoff: b}
}

// answered records the result of a call of a part. l.mu must be held.
func (l *leaser) answered(p *part, err error, now time.Time) {
	t := &p.troubles
	switch {
	case err == nil:
		if t.failing != nil {
			l.logger(p).Info("timeout: the engine answers again")
		}
		t.failing, t.until = nil, time.Time{}
		t.backoff.Reset()
		return
	case errors.Is(err, ErrNotFound):
		l.c.look() // whether there is such a topic
		t.until = now.Add(l.c.cfg.Poll)
		return
	case t.failing == nil:
		l.logger(p).Warn("timeout: the engine fails, and is asked again", "err", err)
		t.failing = err
	}
	if t.until = now.Add(t.backoff.NextBackOff()); errors.Is(err, engine.ErrPartial) {
		t.until = time.Time{} // what does answer is asked as ever
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
