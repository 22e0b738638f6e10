// Package rules decides what becomes of a connection. It knows neither sockets nor clocks,
// takes no lock and calls nobody: [Decide] is a function from a policy, the state of a
// connection, the evidence and an instant to the next state and an outcome. Whoever calls
// it carries the outcome out, and calls it again with the consequences, until the outcome
// is Wait, Heard or Close.
//
// Each policy is a deadline, and has a file of its own. table.go asks them in their order. A
// connection is due at the earliest of them:
//
//	file        the deadline                            what happens then
//	----        ------------                            -----------------
//	doom.go     at once, when the pace allows,          the end, whatever its peer says
//	            between two exchanges, or after
//	            a grace
//	            when room is needed                     the end, unless it was heard
//	age.go      MaxAge after the opening, the grace     the user is told; the end
//	rate.go     the end of a window                     strikes
//	idle.go     ReadIdle after the last byte read,      the user is asked
//	            WriteIdle after the last one written
//	stall.go    WriteStall after the peer took bytes    the end, unless it takes some
//	            when to look for MaxUnsent              the same
//	check.go    when a check of the user's is due       the user inspects it
//	silence.go  a timeout after the last touch          the user is asked, unless examine.go
//	                                                    finds life in the socket
//	            FirstMessage after the opening          the same
//	            a timeout after the peer took nothing   the user is asked
//	probe.go    ProbeAfter after the last touch,        a probe
//	            ProbeTimeout after a probe              the next one, or the end
package rules

import "time"

// State is what is remembered of a connection from one decision to the next. The zero
// State is for a connection without a decision so far. Every connection with a policy has the memory of
// all of it: so a policy that remembers more than an instant goes through Evidence and Outcome, as WriteStall does.
type State struct {
	Own      time.Duration // timeout of the connection's own, or 0
	Holds    int32         // how often it is held
	Doom     Doom
	Evicted  bool // it is to make room
	AgeOver  bool // nothing more comes of its age
	Released Time // when it was last held, or this program was slow to read

	Silence Silence
	Idles   Idles
	Age     Age
	Rates   Rates
}

// Evidence is what is known of a connection at one moment: when the socket was asked, or a little later.
type Evidence struct {
	Life     Life
	Draw     float64       // from 0 to 1, drawn once per connection
	Born     Time          // when the connection was opened
	Touched  Time          // the last touch: not earlier
	Slack    time.Duration // and at most this much later: a tick, or more if this program was late
	DueAt    Time          // when this visit was due
	Begun    Time          // and when it began
	Quiet    bool          // nobody has touched it since the last outcome
	Due      bool          // nobody has touched it since it became due
	Pressure float64       // from 0 for none to 1 for full
	Beats    uint32        // touches counted since the opening
	Lost     uint16        // seconds missing in Time, since this process was stopped; it wraps around
	Unread   bool          // bytes were unread when the socket was last asked before this visit, or once in it
	Changed  bool          // the user has just changed it: a touch, if its first message had come
	Anew     bool          // it was touched in this visit
	Exchange Time          // when no exchange will be under way: Never during one, 0 for a connection without exchanges
	Arriving bool          // bytes of the next exchange were read

	Socket Socket // what it said after the last call of the user, or of the peer

	Stall   Stall // Outcome.Stall of the last decision
	CheckAt Time  // when the next check of the user's is due, or 0 without any

	// What came of the outcomes before, in this visit.
	Checked Reason    // after Inspect: the check that wants it closed, for one decision; or 0
	Retry   Time      // after a paced Close that the pace did not allow: when to try again, in another visit; or 0
	Answer  Answer    // after Ask and Probe, in this silence of the peer
	Idle    [2]Answer // the same for ReadIdle and WriteIdle: each is asked about once in a visit
}

// Lasting returns what is left of the evidence if the connection is touched during a visit:
// the silence is over, and for ReadIdle and WriteIdle it goes on.
func (e Evidence) Lasting() Evidence {
	left := Evidence{Retry: e.Retry, Socket: e.Socket, DueAt: e.DueAt, Begun: e.Begun, Idle: e.Idle, Anew: e.Begun != 0}
	left.Answer.Asked = e.Answer.Asked // bytes since then are news
	return left
}

// Life is what counts as life.
type Life uint8

// What may count as life.
const (
	Reads      Life = iota // bytes, when they are read
	ReadsWrite             // the same, and bytes acknowledged by the peer
	Touches                // touches only
	Arrivals               // bytes, when they arrive; nobody touches for them
)

// Untold reports whether there may be signs of life without a touch.
func (l Life) Untold() bool { return l == Arrivals || l == ReadsWrite }

// Socket is what the socket says of a connection.
type Socket struct {
	Heard    Time   // the last sign of life, if it counts as one, or Unknown
	Signs    uint64 // how many bytes were signs of life: it grows with each
	Received Time   // when bytes last arrived, or Unknown
	Sent     Time   // when bytes were last sent, or Unknown
	Arrived  uint64 // bytes since the opening
	Taken    uint64 // bytes read
	Unread   int    // bytes waiting to be read
	Full     bool   // so many that the peer may have to wait with more
	Hidden   bool   // bytes may wait where nobody sees them, and this program does not read
	Moves    bool   // a transfer is under way, and nobody sees its bytes
	Acked    uint64 // bytes that the peer has acknowledged
	Pending  bool   // the peer has not acknowledged all that was written
	Backlog  bool   // bytes wait, since the peer takes no more at the moment, and to take some is life
	Took     Time   // when the peer last took some of the bytes written, or Unknown

	// The rest is for WriteStall and MaxUnsent.
	Waits              bool          // bytes wait for the peer: it has not acknowledged them, or a call that writes has not ended
	Flying             bool          // some of them are on their way
	Left               Time          // if Flying, when the last of those was sent first, or later
	Rested, RestedMost time.Duration // for how long nothing has waited since some instant, at least and at most
	Unsent             int           // bytes that wait to be sent
}

// Action is what is to be done.
type Action uint8

// All actions. The first two end a visit, and so does Close unless the pace does not allow it.
const (
	Wait    Action = iota // until Outcome.Until
	Heard                 // count a touch at Outcome.Until
	Probe                 // ask the peer: the user wishes it for Outcome.Why, or the peer is silent
	Ask                   // ask the user about Outcome.Why
	Tell                  // tell the user that the connection is to end for Outcome.Why, after a grace
	Inspect               // have the user inspect it, by the check that is due
	Close                 // close the connection for Outcome.Why
)

// Outcome is what a decision leads to.
type Outcome struct {
	Do     Action
	Until  Time
	Why    Reason
	Anyway bool // close it even if it was touched meanwhile
	Paced  bool // close it only if the pace allows that, or else decide anew
	Reset  bool // its peer takes nothing, so neither does it take a last word

	Stall Stall // what to remember of the bytes that wait, for Evidence.Stall

	// What is counted.
	Would  [Reasons]bool // without the dry run, it would be closed for these; for any check of the user, Check
	Spared bool          // it was to be closed, and the socket had heard of its peer, or may have
	Slow   bool          // and because this program is slow: bytes wait to be read
}

// Decide decides what becomes of a connection at the instant just before its socket was asked: what the socket
// says holds for then, and later bytes may have come without a touch.
func Decide(p *Policy, s State, e *Evidence, now Time) (State, Outcome) {
	d := begin(p, s, e, now)
	out := d.decide()
	out.Would, out.Spared, out.Slow, out.Stall = d.out.Would, d.out.Spared, d.out.Slow, d.stall
	return d.s, out
}

// decision is one call of Decide.
type decision struct {
	p     *Policy
	t     times
	s     State
	e     *Evidence
	now   Time
	stall Stall
	out   Outcome // what is counted
}

func begin(p *Policy, s State, e *Evidence, now Time) decision {
	if !e.Quiet {
		s.Silence = Silence{}
	}
	return decision{p: p, t: p.times(s, e.Draw, e.Pressure), s: s, e: e, now: now, stall: e.Stall}
}
