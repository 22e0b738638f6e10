package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive/ssekeepalive"
)

// ways are those that are compared. Each makes the handler of its streams.
var ways = []struct {
	name    string
	handler func() (http.Handler, error)
}{
	{"no comments", func() (http.Handler, error) { return http.HandlerFunc(quiet), nil }},
	{"ssekeepalive", func() (http.Handler, error) {
		k, err := ssekeepalive.New(ssekeepalive.Config{Interval: *interval})
		if err != nil {
			return nil, err
		}
		return k.Wrap(http.HandlerFunc(quiet)), nil
	}},
	{"a ticker in each handler", func() (http.Handler, error) { return http.HandlerFunc(ticking), nil }},
	{"a goroutine with a ticker beside each handler", func() (http.Handler, error) { return http.HandlerFunc(beside), nil }},
}

func open(w http.ResponseWriter) *http.ResponseController {
	w.Header().Set("Content-Type", "text/event-stream")
	c := http.NewResponseController(w)
	_ = c.Flush()
	return c
}

// quiet is the handler of a library: it waits for events, and there are none.
func quiet(w http.ResponseWriter, r *http.Request) {
	open(w)
	<-r.Context().Done()
}

// ticking is a handler with a loop of its own.
func ticking(w http.ResponseWriter, r *http.Request) {
	c := open(w)
	ticker := time.NewTicker(*interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			_, _ = io.WriteString(w, ": \n\n")
			_ = c.Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// beside is what has to be done around a library without a loop of one's own.
func beside(w http.ResponseWriter, r *http.Request) {
	c := open(w)
	var writing sync.Mutex
	var done sync.WaitGroup
	done.Go(func() {
		ticker := time.NewTicker(*interval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				writing.Lock()
				_, _ = io.WriteString(w, ": \n\n")
				_ = c.Flush()
				writing.Unlock()
			case <-r.Context().Done():
				return
			}
		}
	})
	<-r.Context().Done()
	done.Wait()
}

// serve opens the streams of one way, and measures them.
func serve(ctx context.Context) error {
	r := result{Way: os.Getenv(wayOf)}
	var h http.Handler
	err := fmt.Errorf("there is no way %q", r.Way)
	for _, w := range ways {
		if w.name == r.Way {
			h, err = w.handler()
		}
	}
	if err != nil {
		return err
	}
	ln := &listener{conns: make(chan net.Conn)}
	served := make(chan error, 1)
	go func() { served <- (&http.Server{Handler: h}).Serve(ln) }()
	for range *streams {
		select {
		case ln.conns <- &conn{ln: ln, unread: []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), closed: make(chan struct{})}:
		case err := <-served:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for ln.answered.Load() < int64(*streams) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(time.Millisecond)
	}
	debug.FreeOSMemory()
	wait(ctx, *interval) // all of them at work
	writes, processor, begun := ln.writes.Load(), processorTime(), time.Now()
	wait(ctx, *length)
	seconds := time.Since(begun).Seconds()
	r.Comments = float64(ln.writes.Load()-writes) / seconds
	r.Processor = (processorTime() - processor).Seconds() / seconds
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	r.Heap, r.Stacks, r.Goroutines = m.HeapAlloc, m.StackInuse, runtime.NumGoroutine()
	if r.Memory, err = resident(); err != nil {
		return err
	}
	return errors.Join(ctx.Err(), json.NewEncoder(os.Stdout).Encode(r))
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// resident returns the memory of this process, or 0 on a system without /proc.
func resident() (bytes uint64, err error) {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, nil
	}
	var size, pages uint64
	_, err = fmt.Sscan(string(b), &size, &pages)
	return pages * uint64(os.Getpagesize()), err
}

// listener has connections in memory.
type listener struct {
	conns            chan net.Conn
	answered, writes atomic.Int64
}

func (l *listener) Accept() (net.Conn, error) { return <-l.conns, nil }

func (l *listener) Close() error { return nil }

func (l *listener) Addr() net.Addr { return addr{} }

// conn is a connection whose peer has sent a request, and takes all bytes.
type conn struct {
	ln      *listener
	unread  []byte
	written bool
	closed  chan struct{}
}

func (c *conn) Read(p []byte) (int, error) {
	if n := copy(p, c.unread); n > 0 {
		c.unread = c.unread[n:]
		return n, nil
	}
	<-c.closed
	return 0, io.EOF
}

func (c *conn) Write(p []byte) (int, error) {
	if !c.written {
		c.written = true
		c.ln.answered.Add(1)
	}
	c.ln.writes.Add(1)
	return len(p), nil
}

func (c *conn) Close() error {
	close(c.closed)
	return nil
}

func (c *conn) LocalAddr() net.Addr { return addr{} }

func (c *conn) RemoteAddr() net.Addr { return addr{} }

func (c *conn) SetDeadline(time.Time) error { return nil }

func (c *conn) SetReadDeadline(time.Time) error { return nil }

func (c *conn) SetWriteDeadline(time.Time) error { return nil }

type addr struct{}

func (addr) Network() string { return "memory" }

func (addr) String() string { return "memory" }
