package nbiokeepalive

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/lesismal/nbio"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

const patience = time.Minute

// serving are the ways of an nbio program to have timeouts: none, nbio's, and the Keeper's.
var serving = []struct {
	name  string
	serve func(b *testing.B, opened func(c *nbio.Conn)) (addr string)
}{
	{"nbio", func(b *testing.B, opened func(c *nbio.Conn)) string {
		e := bare()
		e.OnOpen(opened)
		return serve(b, e, echo)
	}},
	{"SetReadDeadline", func(b *testing.B, opened func(c *nbio.Conn)) string {
		rearm := func(c *nbio.Conn) { _ = c.SetReadDeadline(time.Now().Add(patience)) }
		e := bare()
		e.OnOpen(func(c *nbio.Conn) { rearm(c); opened(c) })
		return serve(b, e, func(c *nbio.Conn, data []byte) { rearm(c); echo(c, data) })
	}},
	{"nbiokeepalive", func(b *testing.B, opened func(c *nbio.Conn)) string {
		e := Wrap(bare(), newKeeper(b, keepalive.Config{Timeout: patience}))
		e.OnOpen(opened)
		return serve(b, e, echo)
	}},
}

func bare() *nbio.Engine {
	return nbio.NewEngine(nbio.Config{Network: "tcp", Addrs: []string{"127.0.0.1:0"}, NPoller: 1})
}

func echo(c *nbio.Conn, data []byte) { _, _ = c.Write(data) }

// serve starts an nbio.Engine, or one of ours.
func serve(b *testing.B, e interface {
	OnData(h func(c *nbio.Conn, data []byte))
	Start() error
	Stop()
}, onData func(c *nbio.Conn, data []byte),
) string {
	b.Helper()
	e.OnData(onData)
	require.NoError(b, e.Start())
	b.Cleanup(e.Stop)
	if ours, ok := e.(*Engine); ok {
		return ours.Addrs[0]
	}
	return e.(*nbio.Engine).Addrs[0]
}

// BenchmarkMessage is a message and its answer, through the kernel.
func BenchmarkMessage(b *testing.B) {
	for _, s := range serving {
		b.Run("impl="+s.name, func(b *testing.B) {
			client, err := net.Dial("tcp", s.serve(b, func(*nbio.Conn) {}))
			require.NoError(b, err)
			defer client.Close()
			buf := []byte("beat")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := client.Write(buf); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(client, buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkHeartbeat is what a program does for a message: it moves the deadline.
func BenchmarkHeartbeat(b *testing.B) {
	for _, way := range []struct {
		name  string
		serve int // of serving
		beat  func(c *nbio.Conn) func() bool
	}{
		{"SetReadDeadline", 1, func(c *nbio.Conn) func() bool {
			return func() bool { return c.SetReadDeadline(time.Now().Add(patience)) == nil }
		}},
		{"Touch", 2, func(c *nbio.Conn) func() bool { return func() bool { return keepalive.Touch(c) } }},
		{"Guard.Touch", 2, func(c *nbio.Conn) func() bool { return keepalive.Of(c).Touch }},
	} {
		for _, n := range []int{1, 4000} {
			b.Run(fmt.Sprintf("impl=%s/conns=%d", way.name, n), func(b *testing.B) {
				var beats []func() bool
				for _, c := range dialMany(b, serving[way.serve].serve, n) {
					beats = append(beats, way.beat(c))
				}
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					if !beats[i]() {
						b.Fatal("gone")
					}
					if i++; i == len(beats) {
						i = 0
					}
				}
			})
		}
	}
}

// BenchmarkHeap is the heap of a connection.
func BenchmarkHeap(b *testing.B) {
	const conns = 4000
	for _, s := range serving {
		b.Run(fmt.Sprintf("impl=%s/conns=%d", s.name, conns), func(b *testing.B) {
			before := uint64(0)
			all := dialMany(b, func(b *testing.B, opened func(c *nbio.Conn)) string {
				addr := s.serve(b, opened)
				before = heap()
				return addr
			}, conns)
			used := heap() - before
			for b.Loop() { // called once, unlike with b.N
				runtime.KeepAlive(all)
			}
			b.ReportMetric(float64(used)/conns, "B/conn")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// heap returns the bytes in use, after the finalizers of accepted connections.
func heap() uint64 {
	var m runtime.MemStats
	for range 5 {
		runtime.GC()
		time.Sleep(10 * ms)
	}
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// dialMany opens connections, and returns the server's sides. The client has no heap.
func dialMany(b *testing.B, serve func(b *testing.B, opened func(c *nbio.Conn)) string, n int) []*nbio.Conn {
	b.Helper()
	opened := make(chan *nbio.Conn, n)
	addr, err := net.ResolveTCPAddr("tcp", serve(b, func(c *nbio.Conn) { opened <- c }))
	require.NoError(b, err)
	conns := make([]*nbio.Conn, n)
	for i := range conns {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		require.NoError(b, err)
		b.Cleanup(func() { syscall.Close(fd) })
		require.NoError(b, syscall.Connect(fd, &syscall.SockaddrInet4{Port: addr.Port, Addr: [4]byte(addr.IP.To4())}))
		conns[i] = <-opened
	}
	return conns
}
