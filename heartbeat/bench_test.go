package heartbeat

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkWrite is what a Conn adds to a write: the connection inside does nothing.
func BenchmarkWrite(b *testing.B) {
	beater := newBeater(b, Config{})
	idle := Wrap(new(sink))
	beats, err := beater.Start(new(sink), Options{Timeout: time.Minute, Message: []byte("PING\n"), Answer: AnswerRead})
	require.NoError(b, err)
	message := []byte("hello\n")
	for _, c := range []struct {
		conn string
		w    interface{ Write(p []byte) (int, error) }
	}{
		{"bare", new(sink)},
		{"wrapped", idle},
		{"beats", beats},
	} {
		b.Run("conn="+c.conn, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.w.Write(message); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRead is what a Conn adds to a read.
func BenchmarkRead(b *testing.B) {
	beater := newBeater(b, Config{})
	for _, answer := range []Answer{AnswerNone, AnswerRead, AnswerAck} {
		c, err := beater.Start(new(sink), Options{Timeout: time.Minute, Message: []byte("PING\n"), Answer: answer})
		require.NoError(b, err)
		buf := make([]byte, 16)
		b.Run("answer="+answer.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Read(buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkBeat is a beat and its answer, without the socket.
func BenchmarkBeat(b *testing.B) {
	beater := newBeater(b, Config{})
	c, err := beater.Start(new(sink), Options{Timeout: time.Hour, Message: []byte("PING\n"), Answer: AnswerAck})
	require.NoError(b, err)
	x := c.beat.Load()
	b.ReportAllocs()
	for b.Loop() {
		x.mu.Lock()
		x.begin(false)
		x.mu.Unlock()
		x.send()
		if _, ok := c.Ack(); !ok {
			b.Fatal("ended")
		}
	}
}
