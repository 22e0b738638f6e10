package keepalive

import (
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkTouch is the whole way from a connection to its deadline, beside one
// atomic load and one atomic store on a line of its own, which is the limit.
func BenchmarkTouch(b *testing.B) {
	k := newKeeper(b, Config{Timeout: 30 * time.Second})
	_, server := connect(b, "tcp")
	conn := k.Conn(server)
	var clock, word atomic.Uint64
	for _, c := range []struct {
		impl  string
		touch func() bool
	}{
		{"limit", func() bool { word.Store(clock.Load()); return true }},
		{"net", func() bool { return Touch(conn) }},
		{"keeper", func() bool { return k.Touch(conn) }},
	} {
		b.Run("impl="+c.impl, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !c.touch() {
					b.Fatal("gone")
				}
			}
		})
	}
}
