package keepalive

import (
	"fmt"
	"runtime"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// Activity says what counts as life of a connection.
type Activity int

const (
	// ActivityRead counts the bytes that are read: for servers whose peers send heartbeats,
	// or speak first. What ReadFrom and WriteTo move counts in both directions, so a download
	// by io.Copy does not end because its peer has nothing to say.
	ActivityRead Activity = iota

	// ActivityReadWrite also counts what the peer has acknowledged of the bytes written to it:
	// for servers whose peers only listen. A peer that has vanished acknowledges nothing. Only
	// TCP on Linux tells; elsewhere, each write counts that the socket takes.
	ActivityReadWrite

	// ActivityManual counts nothing but Touch: for servers that want whole messages, so that
	// a byte now and then keeps no connection.
	ActivityManual

	// ActivityKernel is ActivityRead without any work per read: the kernel knows when bytes
	// last arrived, and is asked when the deadline has passed. Bytes count when they arrive,
	// read or not. A silent connection is closed up to seven jiffies later (7 to 70 ms), since
	// the kernel is no more precise. It is for TCP on Linux; elsewhere New returns ErrArgument.
	// A connection whose socket can't tell (a Unix socket, MPTCP, a net.Pipe) is kept as with
	// ActivityRead, and the first one is logged.
	ActivityKernel
)

var activityNames = [...]string{"read", "readwrite", "manual", "kernel"}

func (a Activity) String() string {
	if a < 0 || int(a) >= len(activityNames) {
		return fmt.Sprintf("Activity(%d)", int(a))
	}
	return activityNames[a]
}

func (a Activity) check() error { return a.checkOn(socketsTell) }

// checkOn is check for a system whose sockets tell when bytes last arrived, or don't.
func (a Activity) checkOn(socketsTell bool) error {
	if a < ActivityRead || a > ActivityKernel {
		return wrong("Activity %d, must be %d to %d", a, ActivityRead, ActivityKernel)
	}
	if a == ActivityKernel && !socketsTell {
		return wrong("Activity %v, must be another on %s, whose sockets don't tell when bytes last arrived", a, runtime.GOOS)
	}
	return nil
}

// life returns what counts as life of a connection whose socket tells when bytes last
// arrived, or does not.
func (a Activity) life(tells bool) rules.Life {
	switch {
	case a == ActivityReadWrite:
		return rules.ReadsWrite
	case a == ActivityManual:
		return rules.Touches
	case a == ActivityKernel && tells:
		return rules.Arrivals
	}
	return rules.Reads
}
