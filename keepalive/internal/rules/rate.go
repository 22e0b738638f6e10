package rules

import "time"

// window is over how long MinBeat and MinBytes are measured.
const window = 10 * time.Second

// Rates is the state of MinBeat and MinBytes.
//
// A window is renewed only when nothing waits to be read. Otherwise it goes on: this program
// may be slow to read what came in it, and then reads more in the next ten seconds than came
// in those. After a stall it does so, too. The time of the stall is missing in the window, so MinBeat
// adds it.
type Rates struct {
	Began, Next      Time   // of the window
	Arrived          uint64 // bytes when it began
	Beats            uint32 // counted by then
	Lost             uint16 // Evidence.Lost by then
	TooMany, TooSlow uint8  // strikes
}

// rateNext returns when a window ends.
func (d *decision) rateNext() Time {
	if d.s.Rates == (Rates{}) {
		return Never
	}
	return d.s.Rates.Next
}

func (d *decision) rateAdapt() {
	switch {
	case d.p.MinBeat == 0 && d.p.MinBytes == 0:
		d.s.Rates = Rates{}
	case d.s.Rates == Rates{}: // what came before does not count
		d.s.Rates.begin(d.e, d.now)
	}
}

// rated judges a window at its end.
func (d *decision) rated() (Outcome, bool) {
	q := &d.s.Rates
	k, elapsed := &d.e.Socket, d.now.Sub(q.Began)
	beats, bytes := d.e.Beats-q.Beats, k.Arrived-q.Arrived
	lasted := elapsed // the peer beats on while this process is stopped
	if lost := d.e.Lost - q.Lost; lost > 0 {
		lasted += (time.Duration(lost) + 1) * time.Second
	}
	// One more than fit into the window, since its ends cut two of them.
	tooMany := d.p.MinBeat > 0 && uint64(beats) > uint64(lasted/d.p.MinBeat)+1
	tooSlow := bytes > 0 && k.Unread == 0 && float64(bytes) < float64(d.p.MinBytes)*elapsed.Seconds()
	if strike(&q.TooMany, tooMany); tooMany {
		q.Beats = d.e.Beats // the same beats strike once, also if the window goes on
	}
	strike(&q.TooSlow, tooSlow)
	q.Next = d.now.Add(window)
	if k.Unread == 0 {
		q.begin(d.e, d.now)
	}
	switch {
	case int(q.TooMany) >= d.p.Strikes:
		q.TooMany = 0
		return d.doom(TooMany, WhenAllowed)
	case int(q.TooSlow) >= d.p.Strikes:
		q.TooSlow = 0
		return d.doom(TooSlow, WhenAllowed)
	}
	return Outcome{}, false
}

// begin begins a window.
func (q *Rates) begin(e *Evidence, now Time) {
	q.Began, q.Next, q.Beats, q.Lost, q.Arrived = now, now.Add(window), e.Beats, e.Lost, e.Socket.Arrived
}

// strike counts how often in a row something was so.
func strike(n *uint8, so bool) {
	if *n++; !so {
		*n = 0
	}
}
