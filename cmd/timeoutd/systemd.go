package main

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"
)

// tellTimeout is how long systemd may take to receive a message. It never takes long, but if
// it does, the program goes on.
const tellTimeout = time.Second

// systemd sends the program's state to systemd, if $NOTIFY_SOCKET names its socket.
type systemd struct{ log *slog.Logger }

func (n systemd) tell(state string) {
	if err := notify(os.Getenv("NOTIFY_SOCKET"), state); err != nil {
		n.log.Warn("systemd: not told", "state", state, "error", err)
	}
}

// stopping also says how long the end may take, so TimeoutStopSec is never too short. The sum of the
// settings is one of microseconds, since nanoseconds could overflow.
func (n systemd) stopping(drainDelay, grace time.Duration) {
	const more = 15 * time.Second
	n.tell(fmt.Sprintf("STOPPING=1\nSTATUS=going down\nEXTEND_TIMEOUT_USEC=%d", drainDelay.Microseconds()+grace.Microseconds()+more.Microseconds()))
}

func notify(path, state string) error {
	if path == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(tellTimeout)); err != nil {
		return err
	}
	_, err = conn.Write([]byte(state))
	return err
}
