package heartbeat

import "time"

// Ack says that the server has answered a beat. It returns the time since the first unanswered
// beat, less the time in which this process did not run, or 0 if no beat is unanswered. ok is
// false before the beats begin and after they have ended.
//
// With AnswerAck, Ack may also be called for any other sign of life. Then it returns how long
// the sign took to come.
func (c *Conn) Ack() (roundTrip time.Duration, ok bool) {
	x := c.beat.Load()
	if x == nil {
		return 0, false
	}
	if roundTrip, ok = x.ack(); roundTrip > 0 && x.opts.OnRoundTrip != nil {
		_ = x.beater.call("OnRoundTrip", func() error { x.opts.OnRoundTrip(c, roundTrip); return nil })
	}
	return roundTrip, ok
}

// RoundTrip returns how long the last answer took, see [Conn.Ack], or 0 without an answer yet.
func (c *Conn) RoundTrip() time.Duration {
	x := c.beat.Load()
	if x == nil {
		return 0
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.roundTrip
}

func (x *beat) ack() (roundTrip time.Duration, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.why != nil {
		return 0, false
	}
	if x.opts.Answer != AnswerNone {
		x.live()
	}
	if x.sent.IsZero() {
		return 0, true
	}
	x.roundTrip = max(1, x.beater.counted(time.Since(x.sent)))
	x.sent = time.Time{}
	return x.roundTrip, true
}

// read notes that something was read.
func (x *beat) read() {
	if x.opts.Answer != AnswerRead {
		return
	}
	if x.deadline.Load() == 0 { // no beat waits for it
		if now := int64(x.beater.wheel.Now()); x.heard.Load() != now {
			x.heard.Store(now)
		}
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.live()
}

// live notes that the server lives. mu must be held.
func (x *beat) live() {
	x.excuses = 0
	x.heard.Store(int64(x.beater.wheel.Now()))
	x.deadline.Store(0)
}
