package gnetkeepalive

import (
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// BenchmarkTouch is the whole way from a gnet.Conn to its deadline.
func BenchmarkTouch(b *testing.B) {
	k := newKeeper(b, keepalive.Config{Timeout: time.Minute})
	conns := make(chan gnet.Conn, 1)
	e := start(b, &app{onOpen: func(c gnet.Conn) ([]byte, gnet.Action) { conns <- c; return nil, gnet.None }}, k)
	e.dial(b)
	conn := <-conns
	b.ReportAllocs()
	for b.Loop() {
		if !keepalive.Touch(conn) {
			b.Fatal("gone")
		}
	}
}
