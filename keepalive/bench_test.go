package keepalive

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// BenchmarkTouch is the whole way from a connection to its deadline. The limit, beside it, is
// one atomic load and one atomic store on a line of its own.
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
		{"guard", Of(conn).Touch},
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

// activities runs a benchmark for the bare connection, and for a connection of each Activity.
func activities(b *testing.B, run func(b *testing.B, guard func(net.Conn) net.Conn)) {
	b.Run("activity=none", func(b *testing.B) { run(b, func(c net.Conn) net.Conn { return c }) })
	for a := range Activity(len(activityNames)) {
		b.Run("activity="+a.String(), func(b *testing.B) {
			if err := a.check(); err != nil {
				b.Skip(err)
			}
			run(b, newKeeper(b, Config{Timeout: 30 * time.Second, Activity: a}).Conn)
		})
	}
}

// BenchmarkRead reads a byte waiting in the socket of a connection of TCP.
func BenchmarkRead(b *testing.B) {
	activities(b, func(b *testing.B, guard func(net.Conn) net.Conn) {
		client, server := connect(b, "tcp")
		conn, buf := guard(server), make([]byte, 1)
		const waiting = 32 << 10
		refill := make([]byte, waiting)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if i%waiting == 0 {
				b.StopTimer()
				_, err := client.Write(refill)
				require.NoError(b, err)
				b.StartTimer()
			}
			if _, err := conn.Read(buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// reader is a connection with a Read that takes no time.
type reader struct{ *net.TCPConn }

func (reader) Read(p []byte) (int, error) { return len(p), nil }

// BenchmarkReadAdds is what a guard adds to Read, without the system call.
func BenchmarkReadAdds(b *testing.B) {
	activities(b, func(b *testing.B, guard func(net.Conn) net.Conn) {
		_, server := connect(b, "tcp")
		conn, buf := io.Reader(guard(reader{server.(*net.TCPConn)})), make([]byte, 1)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := conn.Read(buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// unixReader is the same of a Unix socket, which can't tell when bytes came.
type unixReader struct{ *net.UnixConn }

func (unixReader) Read(p []byte) (int, error) { return len(p), nil }

// BenchmarkReadsOfMany is what a guard adds if every processor reads from connections of its own: with -cpu 1,4,16
// it shows a lock of all connections.
func BenchmarkReadsOfMany(b *testing.B) {
	k := newKeeper(b, Config{Timeout: 30 * time.Second})
	b.RunParallel(func(pb *testing.PB) {
		_, server := connect(b, "unix")
		conn, buf := io.Reader(k.Conn(unixReader{server.(*net.UnixConn)})), make([]byte, 1)
		for pb.Next() {
			if _, err := conn.Read(buf); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkAsk asks a socket once.
func BenchmarkAsk(b *testing.B) {
	k := newKeeper(b, Config{Timeout: 30 * time.Second})
	_, server := connect(b, "tcp")
	g := Of(k.Conn(server))
	b.ReportAllocs()
	for b.Loop() {
		if s, _ := g.look(); s.Received == rules.Unknown && socketsTell {
			b.Fatal("silent")
		}
	}
}

// The wheel asks for the limit of each connection in its way, under its lock.
func BenchmarkLimit(b *testing.B) {
	for name, cfg := range map[string]Config{
		"default":  {},
		"probe":    {Probe: Probing{Send: func(any) error { return nil }}},
		"pressure": {Room: Room{Pressure: Pressure{Timeout: time.Second}}},
		"maxage":   {Age: Age{Max: time.Hour}},
	} {
		b.Run(name, func(b *testing.B) {
			k, err := New(cfg)
			require.NoError(b, err)
			defer k.Close()
			c, _ := pipe(k)
			g := Of(c)
			b.ReportAllocs()
			for b.Loop() {
				g.limit()
			}
		})
	}
}

// noSocket is an adapter of connections without a socket.
type noSocket struct{ adapter.Adapter }

func (noSocket) Control(adapter.Binding, func(uintptr)) error { return errors.ErrUnsupported }

// bound is a connection of a framework.
type bound struct{ guard *Guard }

func (b *bound) SafeContext() any { return b.guard }

// open opens a connection of a framework.
func (b *bound) open(k *Keeper) error {
	b.guard = new(Guard)
	return k.Bind(b.guard, b, noSocket{}, nil)
}

// close closes it.
func (b *bound) close() {
	b.guard.Binding().Release()
	b.guard.Binding().Closed(true)
}

// BenchmarkOpen opens a connection and closes it, both apart from its socket.
func BenchmarkOpen(b *testing.B) {
	for name, cfg := range map[string]Config{
		"timeout":  {},
		"policies": {FirstMessage: time.Second, ReadIdle: time.Minute, Age: Age{Max: time.Hour}, Rate: Rate{MinBeat: time.Second}},
	} {
		b.Run("with="+name, func(b *testing.B) {
			k, err := New(cfg)
			require.NoError(b, err)
			defer k.Close()
			var conn bound
			b.ReportAllocs()
			for b.Loop() {
				if err := conn.open(k); err != nil {
					b.Fatal(err)
				}
				conn.close()
			}
		})
	}
}
