package rules

import "time"

// window is over how long MinBeat and MinRate are measured.
const window = 10 * time.Second

// Rates is the state of MinBeat and MinRate.
//
// A window is renewed only when nothing waits to be read. Otherwise it goes on: this program
// may be slow to read what came in it, and then reads more in the next ten seconds than came
// in those.
type Rates struct {
	On               bool
	Began, Next      Time
	Beats            uint32 // counted when the window began
	Arrived          uint64 // bytes by then
	TooMany, TooSlow uint8  // strikes
}

// Until returns when to look, or Never.
func (q Rates) Until() Time {
	if q.On {
		return q.Next
	}
	return Never
}

func (p *Policy) adaptRates(rates Rates, beats uint32, now Time) Rates {
	switch {
	case p.MinBeat == 0 && p.MinRate == 0:
		return Rates{}
	case rates.On:
		return rates
	}
	return Rates{On: true, Began: now, Next: now.Add(window), Beats: beats}
}

// rated judges what came in a window that is over.
func (d *decision) rated() (Outcome, bool) {
	q := &d.s.Rates
	if d.now < q.Until() || d.s.Doom.Why != 0 {
		return Outcome{}, false
	}
	if out, wanted := d.look(); wanted {
		return out, true
	}
	k, elapsed := d.socket, d.now.Sub(q.Began)
	beats, bytes := d.e.Beats-q.Beats, k.Arrived-q.Arrived
	// One more than fit into the window, since its ends cut two of them.
	tooMany := d.p.MinBeat > 0 && uint64(beats) > uint64(elapsed/d.p.MinBeat)+1
	tooSlow := d.p.MinRate > 0 && bytes > 0 && k.Unread == 0 && float64(bytes) < float64(d.p.MinRate)*elapsed.Seconds()
	strike(&q.TooMany, tooMany)
	strike(&q.TooSlow, tooSlow)
	q.Next = d.now.Add(window)
	if k.Unread == 0 {
		q.Began, q.Beats, q.Arrived = d.now, d.e.Beats, k.Arrived
	}
	switch {
	case int(q.TooMany) >= d.p.Strikes:
		return d.doom(TooMany)
	case int(q.TooSlow) >= d.p.Strikes:
		return d.doom(TooSlow)
	}
	return Outcome{}, false
}

// strike counts how often in a row something was so.
func strike(n *uint8, so bool) {
	if *n++; !so {
		*n = 0
	}
}
