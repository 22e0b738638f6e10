package exampletest

import (
	"bytes"
	"context"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
)

// Interrupt stops an example while it starts: in its first line, and a little later. It does so 50 times, or as
// often as it can in two seconds. Each time the example must end, and without an error.
func Interrupt(t *testing.T, serve func(ctx context.Context, addr string, timeout time.Duration, logger *slog.Logger) error) {
	begun := time.Now()
	for n := 0; n < 50 && time.Since(begun) < 2*time.Second; n++ {
		ctx, cancel := context.WithCancel(t.Context())
		first := &firstLine{interrupt: cancel}
		ended := make(chan error, 1)
		go func() { ended <- serve(ctx, "127.0.0.1:0", Timeout, slog.New(slog.NewTextHandler(first, nil))) }()
		select {
		case err := <-ended:
			require.NoError(t, err, "the example's log:\n%s", first)
		case <-time.After(Late):
			require.FailNow(t, "the example does not stop", "its log:\n%s", first)
		}
		require.Error(t, ctx.Err(), "the example ended by itself; its log:\n%s", first)
	}
}

// firstLine is a log that interrupts when the example listens.
type firstLine struct {
	logtest.Log
	interrupt context.CancelFunc
}

func (l *firstLine) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("msg=listening")) {
		if rand.N(2) == 0 {
			l.interrupt()
		}
		time.AfterFunc(rand.N(time.Millisecond), l.interrupt)
		time.Sleep(rand.N(time.Millisecond)) // what follows the line comes before the interrupt, or after it
	}
	return l.Log.Write(p)
}
