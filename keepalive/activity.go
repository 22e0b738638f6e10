package keepalive

import (
	"fmt"
	"runtime"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// Activity says what counts as life of a connection.
type Activity int

const (
	// ActivityRead counts the bytes read: for servers whose peers send heartbeats, or speak
	// first. Bytes moved by ReadFrom and WriteTo count in both directions, so a download by
	// io.Copy does not end because its peer has nothing to say. TLS has no ReadFrom, so io.Copy
	// calls Write. A Write that waits for the peer is no silence as long as the peer takes some of
	// its bytes, on TCP on Linux. For a download that waits for anything else, over TLS, see
	// Guard.Hold and ActivityReadWrite.
	ActivityRead Activity = iota

	// ActivityReadWrite also counts the bytes acknowledged by the peer: for servers whose peers
	// only listen. A vanished peer acknowledges nothing. Only TCP on Linux tells; elsewhere,
	// each write counts if the socket takes it.
	ActivityReadWrite

	// ActivityManual counts nothing but Touch: for servers that want whole messages. A byte now
	// and then keeps no connection.
	ActivityManual

	// ActivityKernel is ActivityRead without any work per read: the kernel knows when bytes
	// last arrived, and is asked when the deadline has passed. Bytes count when they arrive,
	// read or not. A silent connection is closed up to seven jiffies later (7 to 70 ms), since
	// the kernel is no more precise. It is for TCP on Linux; elsewhere New returns ErrArgument.
	// Some sockets can't tell (a Unix socket, MPTCP, a net.Pipe): their connections are kept as
	// with ActivityRead, and the first one is logged.
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

// checkOn is check for a system with or without sockets that tell when bytes last arrived.
func (a Activity) checkOn(socketsTell bool) error {
	if a < ActivityRead || a > ActivityKernel {
		return wrong("Activity %d, must be %d to %d", a, ActivityRead, ActivityKernel)
	}
	if a == ActivityKernel && !socketsTell {
		return wrong("Activity %v, must be another on %s, whose sockets don't tell when bytes last arrived", a, runtime.GOOS)
	}
	return nil
}

// life returns what counts as life of a connection. tells reports whether its socket knows when
// bytes last arrived.
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
