// Package sdnotify tells systemd of a program's state.
package sdnotify

import (
	"log/slog"
	"net"
	"os"
	"time"
)

// timeout is how long systemd may take to receive a message. It never takes long, but if it does, the
// program goes on. Without a timeout, a full socket would stop it for ever.
const timeout = time.Second

// A Notifier tells systemd. Without a $NOTIFY_SOCKET it does nothing.
type Notifier struct{ Log *slog.Logger }

// Tell sends a state, a NAME=value on each line, as of sd_notify(3). An error is logged.
func (n Notifier) Tell(state string) {
	if err := send(os.Getenv("NOTIFY_SOCKET"), state); err != nil {
		n.Log.Warn("systemd: not told", "state", state, "error", err)
	}
}

func send(path, state string) error {
	if path == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	_, err = conn.Write([]byte(state))
	return err
}
