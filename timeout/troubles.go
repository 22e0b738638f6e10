package timeout

import (
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// troubles handles failures of the engine for a worker: it logs the first, and asks less and
// less often. Only serve uses it.
type troubles struct {
	w       *worker
	backoff *backoff.ExponentialBackOff
	until   time.Time
	failing bool
}

func newTroubles(w *worker) *troubles {
	t := &troubles{w: w, backoff: backoff.NewExponentialBackOff()}
	t.backoff.InitialInterval, t.backoff.MaxInterval = 20*time.Millisecond, 5*time.Second
	return t
}

// pause returns how long the worker must leave the engine alone.
func (t *troubles) pause(now time.Time) time.Duration { return t.until.Sub(now) }

// answered records the result of a call of the engine.
func (t *troubles) answered(err error, now time.Time) {
	log, name := t.w.c.cfg.Logger, t.w.name
	switch {
	case err == nil:
		if t.failing {
			log.Info("timeout: the engine answers again", "topic", name)
		}
		t.failing, t.until = false, time.Time{}
		t.backoff.Reset()
		return
	case errors.Is(err, ErrNotFound):
		t.w.c.look() // whether there is such a topic
		t.until = now.Add(t.w.c.cfg.Poll)
		return
	case !t.failing:
		log.Warn("timeout: the engine fails, and is asked again", "topic", name, "err", err)
		t.failing = true
	}
	t.until = now.Add(t.backoff.NextBackOff())
}
