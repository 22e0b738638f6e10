package keepalive

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// talker is a log handler with a call back into the Keeper.
type talker struct {
	slog.Handler
	talk func()
}

func (h *talker) Enabled(_ context.Context, level slog.Level) bool { return level == slog.LevelWarn }

func (h *talker) Handle(context.Context, slog.Record) error {
	h.talk()
	return nil
}

// A log may be slow, or have guarded connections itself.
func TestWarningOfASocketThatCannotTellStopsNobody(t *testing.T) {
	h := &talker{}
	k := newKeeper(t, Config{Activity: ActivityKernel, Logger: slog.New(h)})
	guard := func() {
		a, b := net.Pipe()
		require.NoError(t, k.Conn(a).Close())
		require.NoError(t, b.Close())
	}
	h.talk = guard
	done := make(chan bool)
	go func() {
		defer close(done)
		guard()
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		require.Fail(t, "it waits for itself")
	}
}
