package heartbeat

import (
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestImpossibleArguments(t *testing.T) {
	here, _ := net.Pipe()
	defer here.Close()
	ping := []byte("PING\n")
	b := newBeater(t, Config{})
	for _, tt := range []struct {
		opts Options
		want string
	}{
		{Options{Timeout: time.Minute}, "neither Message nor Beat"},
		{Options{Timeout: time.Minute, Message: ping, Beat: func(net.Conn) error { return nil }}, `Message "PING\n" and Beat, must be one of them`},
		{Options{Message: ping}, "Timeout 0s (Interval 0s), must be at least 10 ticks of 100ms"},
		{Options{Message: ping, Timeout: -1}, "Timeout -1ns, must be 0 to 87600h0m0s"},
		{Options{Message: ping, Timeout: 1 << 62}, "must be 0 to 87600h0m0s"},
		{Options{Message: ping, Interval: -1}, "Interval -1ns, must be 0 to"},
		{Options{Message: ping, Interval: 1 << 62}, "Interval 1281023h53m38.427387904s, must be 0 to"},
		{Options{Message: ping, Timeout: 999 * ms}, "Timeout 999ms (Interval 0s), must be at least 10 ticks of 100ms"},
		{Options{Message: ping, Interval: 50 * ms}, "Timeout 150ms (Interval 50ms), must be at least 10 ticks of 100ms"},
		{Options{Message: ping, Timeout: time.Second, Interval: 99 * ms}, "Interval 99ms, must be at least a tick, 100ms, and at most three quarters of Timeout 1s"},
		{Options{Message: ping, Timeout: time.Second, Interval: 751 * ms}, "Interval 751ms, must be at least a tick, 100ms, and at most three quarters of Timeout 1s"},
		{Options{Message: ping, Timeout: time.Minute, AckTimeout: time.Second}, "AckTimeout 1s with Answer none"},
		{Options{Message: ping, Timeout: time.Minute, Answer: AnswerAck, AckTimeout: -1}, "AckTimeout -1ns, must be 0 to"},
		{Options{Message: ping, Timeout: time.Minute, Answer: AnswerAck, AckTimeout: 99 * ms}, "AckTimeout 99ms, must be at least a tick, 100ms, and at most Interval 20s"},
		{Options{Message: ping, Timeout: time.Minute, Answer: AnswerAck, AckTimeout: 21 * time.Second}, "AckTimeout 21s, must be at least a tick, 100ms, and at most Interval 20s"},
		{Options{Message: ping, Timeout: time.Minute, Answer: 3}, "Answer 3, must be 0 to 2"},
		{Options{Message: ping, Timeout: time.Minute, Answer: -1}, "Answer -1, must be 0 to 2"},
	} {
		_, err := b.Start(here, tt.opts)
		require.ErrorIs(t, err, ErrArgument)
		require.ErrorContains(t, err, tt.want)
		_, err = Start(here, tt.opts)
		require.ErrorContains(t, err, tt.want)
	}
	require.Nil(t, shared.beater)
	_, err := b.Start(nil, Options{Timeout: time.Minute, Message: ping})
	require.ErrorContains(t, err, "conn is nil")
	_, err = b.Start(Wrap(nil), Options{Timeout: time.Minute, Message: ping})
	require.ErrorContains(t, err, "conn is nil")
	for want, cfg := range map[string]Config{
		"Tick 999µs, must be at least 1ms":     {Tick: 999 * time.Microsecond},
		"Tick 1h0m0.001s, must be at most 1h":  {Tick: time.Hour + ms},
		"Stall 150ms, must be at least two ti": {Stall: 150 * ms},
	} {
		_, err := New(cfg)
		require.ErrorIs(t, err, ErrArgument)
		require.ErrorContains(t, err, want)
	}
}

func TestMessageIsCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBeater(t, Config{})
		message := []byte("PING\n")
		_, s := start(t, b, Options{Timeout: 30 * time.Second, Message: message}, nil)
		copy(message, "XXXX")
		time.Sleep(time.Minute)
		require.NotEmpty(t, s.heard("PING"))
		require.Empty(t, s.heard("XXXX"))
	})
}

func TestStrings(t *testing.T) {
	require.Equal(t, "none read ack Answer(3) Answer(-1)", fmt.Sprint(AnswerNone, AnswerRead, AnswerAck, Answer(3), Answer(-1)))
}
