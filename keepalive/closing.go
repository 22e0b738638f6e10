package keepalive

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Closing says how the Keeper closes connections.
type Closing struct {
	// Farewell returns the last bytes for a connection closed by the Keeper. They are written
	// past all layers above, so not below TLS. Nil, or no bytes, means none.
	Farewell func(conn any, reason Reason) []byte

	// Timeout bounds the farewell: how long its bytes may take to leave, and with CloseHalf
	// also how long the peer has to close its side. On gnet, bytes waiting for a slow peer have
	// to leave before the farewell. Zero means a second.
	Timeout time.Duration

	// Mode is how a connection is closed. The zero value is CloseGraceful.
	Mode CloseMode

	// MaxPerSecond bounds how many connections the policies close in a second. The others wait,
	// in no particular order, and a heartbeat before the close cancels it. Evictions don't wait.
	// Zero means any number.
	MaxPerSecond int

	// DryRun closes nobody, but for Drain and Guard.Close. A connection due to be closed by a
	// policy is counted, once for each policy, and left alone until it is heard again.
	// Evictions are only counted, too, so there may be 64 more connections than Room.MaxConns.
	// See Stats.WouldClose and Stats.Silences.
	DryRun bool
}

func (c *Closing) setDefaults() { c.Timeout = cmp.Or(c.Timeout, time.Second) }

func (c Closing) check() error {
	var mode error
	if c.Mode < CloseGraceful || c.Mode > CloseReset {
		mode = wrong("Closing.Mode %d, must be %d to %d", c.Mode, CloseGraceful, CloseReset)
	}
	return errors.Join(
		mode,
		notNegative("Closing.Timeout", c.Timeout),
		within("Closing.MaxPerSecond", c.MaxPerSecond, 1e9),
	)
}

// CloseMode is how a Keeper closes a connection.
type CloseMode int

const (
	// CloseGraceful closes a connection as its Close does: bytes written before still leave. On
	// gnet, bytes waiting for a silent peer are dropped, unless there is a farewell.
	CloseGraceful CloseMode = iota

	// CloseHalf ends our side first, and closes the connection when the peer has ended its own,
	// or after Closing.Timeout. So a peer can read the farewell even while it is still sending;
	// a reset would take the farewell away.
	CloseHalf

	// CloseReset drops unsent bytes and resets the connection: the kernel keeps nothing of it.
	CloseReset
)

var closeModeNames = [...]string{"graceful", "half", "reset"}

func (m CloseMode) String() string {
	if m < 0 || int(m) >= len(closeModeNames) {
		return fmt.Sprintf("CloseMode(%d)", int(m))
	}
	return closeModeNames[m]
}
