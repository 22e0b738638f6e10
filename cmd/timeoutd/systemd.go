package main

import (
	"fmt"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/sdnotify"
)

// systemd gets the state of the program.
type systemd struct{ sdnotify.Notifier }

// stopping also says how long the end may take, so TimeoutStopSec is never too short. The sum of the
// settings is one of microseconds, since nanoseconds could overflow.
func (n systemd) stopping(drainDelay, grace time.Duration) {
	const more = 15 * time.Second
	n.Tell(fmt.Sprintf("STOPPING=1\nSTATUS=going down\nEXTEND_TIMEOUT_USEC=%d", drainDelay.Microseconds()+grace.Microseconds()+more.Microseconds()))
}
