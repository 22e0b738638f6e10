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

// BenchmarkOnTraffic is the cost of the handler around OnTraffic: the handler inside does
// nothing.
func BenchmarkOnTraffic(b *testing.B) {
	for a := keepalive.ActivityRead; a <= keepalive.ActivityKernel; a++ {
		b.Run("activity="+a.String(), func(b *testing.B) {
			cfg := keepalive.Config{Timeout: time.Minute, Activity: a}
			if err := cfg.Validate(); err != nil {
				b.Skip(err)
			}
			k := newKeeper(b, cfg)
			conns := make(chan gnet.Conn, 1)
			app := &app{
				booted:    make(chan booted, 1),
				onOpen:    func(c gnet.Conn) ([]byte, gnet.Action) { conns <- c; return nil, gnet.None },
				onTraffic: func(gnet.Conn) gnet.Action { return gnet.None },
			}
			h := Wrap(app, k)
			run(b, "tcp://127.0.0.1:0", app, h).dial(b)
			conn := <-conns
			b.ReportAllocs()
			for b.Loop() {
				h.OnTraffic(conn)
			}
		})
	}
}
