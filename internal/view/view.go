// Package view carries what package keepalive has for package debughttp, and hides from other
// programs: a look at each connection, cheap enough for a million of them.
package view

import (
	"context"
	"net"
	"time"
)

// Conn is a connection at a glance. Nobody asks its socket, or its event loop, for it. Instants
// are of the Keeper's time, so they stay the same from one look to the next.
type Conn struct {
	ID        uint64
	Remote    net.Addr      // of the peer, or nil if unknown
	Opened    time.Duration // an instant
	Touched   time.Duration // an instant
	Timeout   time.Duration
	RoundTrip time.Duration // of the last answer to a probe, or 0
	State     string        // one of the constants below
	Key       string        // of Guard.SetKey, or ""

	MeanRoundTrip time.Duration // see keepalive.Info
	Held          bool          // whatever its State is
}

// What a connection is doing. A connection is in the first state that fits.
const (
	Leaving = "leaving" // its end is decided, or waits for the rate
	Held    = "held"    // the program is busy with it
	New     = "new"     // its first message is awaited
	Probing = "probing" // the answer to a probe is awaited
	Open    = "open"
)

// States are all states.
var States = []string{Open, New, Held, Probing, Leaving}

// Traffic is what a socket says of its bytes.
type Traffic struct {
	Received  uint64        // bytes that have arrived
	Acked     uint64        // bytes that the peer has acknowledged
	RoundTrip time.Duration // by the kernel's estimate, or 0
}

// Funcs are functions of package keepalive, about its Keeper K, its Guard G and its Reason R.
type Funcs[K, G, R any] struct {
	// Now returns the Keeper's time.
	Now func(k *K) time.Duration

	// Look looks at a connection. ok is false if it is not guarded.
	Look func(g *G) (c Conn, ok bool)

	// Deadline is Guard.Deadline, as an instant of the Keeper's time. Reason 0 means no end.
	Deadline func(g *G) (at time.Duration, why R, ok bool)

	// Ask asks the socket of a connection. On gnet it waits for the event loop until ctx is
	// done. ok is false if the socket does not tell.
	Ask func(ctx context.Context, g *G) (t Traffic, ok bool)
}

// funcs is a Funcs. Package keepalive sets it when it is initialized.
var funcs any

// Set keeps the functions.
func Set[K, G, R any](f Funcs[K, G, R]) { funcs = f }

// Get returns them. Its type arguments must be those of Set.
func Get[K, G, R any]() Funcs[K, G, R] { return funcs.(Funcs[K, G, R]) }
