package main

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fakeGateway in the environment makes this test program a gateway, of a kind.
const fakeGateway = "HEARTWHEEL_LOADTEST_FAKE_GATEWAY"

// newFake returns the program of a gateway. It welcomes everybody, and has the fault of its kind.
func newFake(t *testing.T, kind string) (file string) {
	self, err := os.Executable()
	require.NoError(t, err)
	file = filepath.Join(t.TempDir(), kind)
	script := fmt.Sprintf("#!/bin/sh\n%s='%s' exec '%s' \"$@\"\n", fakeGateway, kind, self)
	require.NoError(t, os.WriteFile(file, []byte(script), 0o755))
	return file
}

// fake is such a gateway. It has no Redis, and knows of no other.
type fake struct {
	kind string

	mu     sync.Mutex // stdout's too
	epochs map[string]int64
	served int // sessions
	conns  map[net.Conn]bool
}

// runFake serves until SIGTERM.
func runFake(kind string) {
	f := &fake{kind: kind, epochs: map[string]int64{}, conns: map[net.Conn]bool{}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		slog.Error(err.Error())
		os.Exit(1)
	}
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	slog.Info("server: listening", "addr", ln.Addr().String())
	slog.Info("gateway: open")
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go f.serve(c)
		}
	}()
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	for ticker := time.Tick(200 * time.Millisecond); ; {
		select {
		case <-ticker:
			if f.kind == "counts wrongly" {
				f.say(`{"event":"stats","sessions":7,"failures":30,"lost":2}`)
				continue
			}
			f.mu.Lock()
			served := f.served
			f.mu.Unlock()
			f.say(`{"event":"stats","sessions":%d,"renewals":%d}`, served, time.Now().UnixMilli())
		case <-end:
			if f.kind == "stays" {
				continue
			}
			f.drain()
			os.Exit(0)
		}
	}
}

func (f *fake) say(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Printf(format+"\n", args...)
}

func (f *fake) offline(session string, epoch int64) {
	f.say(`{"event":"offline","session":%q,"epoch":%d,"reason":"expired"}`, session, epoch)
}

func (f *fake) serve(c net.Conn) {
	defer c.Close()
	f.mu.Lock()
	f.conns[c] = true
	f.mu.Unlock()
	for scanner := bufio.NewScanner(c); scanner.Scan(); {
		session, ok := strings.CutPrefix(scanner.Text(), "HELLO ")
		if !ok {
			fmt.Fprintln(c, strings.Replace(scanner.Text(), "PING", "PONG", 1))
			continue
		}
		epoch := time.Now().UnixNano()
		if f.kind == "forgets in peace" {
			epoch = -epoch
		}
		f.mu.Lock()
		if len(f.epochs) == 0 && f.kind == "dies" && slices.Contains(os.Args, "node-2") {
			time.AfterFunc(time.Second, func() {
				fmt.Fprintln(os.Stderr, "it hurts")
				os.Exit(3)
			})
		}
		f.epochs[session] = epoch
		full := f.kind == "says nothing" && len(f.epochs) > 20
		f.mu.Unlock()
		if full {
			fmt.Fprintln(c, "ERR full")
			return
		}
		f.serves(+1)
		defer f.serves(-1)
		if f.kind != "counts wrongly" {
			f.say(`{"event":"online","session":%q,"epoch":%d,"kind":"new"}`, session, epoch)
		}
		fmt.Fprintf(c, "WELCOME %d new\n", epoch)
		if f.kind == "lies" {
			time.AfterFunc(200*time.Millisecond, func() { f.offline(session, epoch) })
			f.offline(session, 7)
			f.say("nonsense")
		}
	}
}

func (f *fake) serves(more int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.served += more
}

// drain is the end.
func (f *fake) drain() {
	f.mu.Lock()
	for c := range f.conns {
		fmt.Fprint(c, "BYE draining\n")
		c.Close()
	}
	epochs := f.epochs
	f.mu.Unlock()
	if f.kind == "forgets in peace" {
		for session, epoch := range epochs {
			f.offline(session, epoch)
		}
	}
}
