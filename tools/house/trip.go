//go:build ignore

// This program makes a trip through Heartwheel once for each folder, and writes the compiler's coverage counters of the
// trip there.
//
//	trip net expiry DIR...
//
// There is one connection, guarded by a Keeper with a Timeout alone, and heard once before the trip. The trips are
//
//	heartbeat    a byte of the client arrives, and the server waits for the next one
//	silence      nothing but the wheel's hand, in the middle third of Timeout
//	expiry       from the middle third on, until the connection is closed and the Keeper is at rest
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/coverage"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/gnetkeepalive"
)

const (
	timeout = time.Second
	tries   = 10
	patient = 30 * time.Second // for an event
)

func main() {
	for _, dir := range os.Args[3:] {
		err := travel(os.Args[1], os.Args[2], dir)
		for try := 1; try < tries && errors.Is(err, keepalive.ErrIdleTimeout); try++ { // the machine was too slow
			err = travel(os.Args[1], os.Args[2], dir)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "trip:", err)
			os.Exit(1)
		}
	}
}

func travel(engine, trip, dir string) error {
	k, err := keepalive.New(keepalive.Config{Timeout: timeout})
	if err != nil {
		return err
	}
	defer k.Close()
	s := make(server, 3)
	serve := s.net
	if engine == "gnet" {
		serve = s.gnet
	}
	address, stop, err := serve(k)
	if err != nil {
		return err
	}
	defer stop()
	client, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := errors.Join(s.beat(client), s.pause(), coverage.ClearCounters()); err != nil {
		return err
	}
	switch trip {
	case "heartbeat":
		err = s.beat(client)
	case "silence":
		err = s.pause()
	case "expiry":
		if err = s.event(); errors.Is(err, keepalive.ErrIdleTimeout) {
			err = s.pause() // the Keeper still has work
		}
	default:
		err = fmt.Errorf("trip %q, must be heartbeat, silence or expiry", trip)
	}
	if err != nil {
		return err
	}
	return errors.Join(coverage.WriteMetaDir(dir), coverage.WriteCountersDir(dir))
}

// server is the events of a server's connection: nil for a heartbeat, or why it has ended.
type server chan error

func (s server) beat(client net.Conn) error {
	if _, err := client.Write([]byte("x")); err != nil {
		return err
	}
	return s.event()
}

func (s server) event() error {
	select {
	case err := <-s:
		return err
	case <-time.After(patient):
		return errors.New("no heartbeat, and no end")
	}
}

// pause is a third of Timeout without an event.
func (s server) pause() error {
	select {
	case err := <-s:
		return err
	case <-time.After(timeout / 3):
		return nil
	}
}

func (s server) net(k *keepalive.Keeper) (address string, stop func(), err error) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	ln := k.Listener(inner)
	go func() {
		c, err := ln.Accept()
		for b := make([]byte, 1); err == nil; s <- err {
			_, err = c.Read(b)
		}
	}()
	return ln.Addr().String(), func() { ln.Close() }, nil
}

func (s server) gnet(k *keepalive.Keeper) (address string, stop func(), err error) {
	h := &handler{server: s, booted: make(chan gnet.Engine, 1)}
	go func() { s <- gnet.Run(gnetkeepalive.Wrap(h, k), "tcp://127.0.0.1:0") }()
	select {
	case err := <-s:
		return "", nil, err
	case engine := <-h.booted:
		addr, err := gnetkeepalive.Addr(engine)
		return fmt.Sprint(addr), func() { _ = engine.Stop(context.Background()) }, err
	}
}

type handler struct {
	gnet.BuiltinEventEngine
	server
	booted chan gnet.Engine
}

func (h *handler) OnBoot(engine gnet.Engine) gnet.Action {
	h.booted <- engine
	return gnet.None
}

func (h *handler) OnTraffic(c gnet.Conn) gnet.Action {
	_, _ = c.Discard(-1)
	_ = c.AsyncWrite(nil, func(gnet.Conn, error) error { // the event loop calls it after what is left to do for the heartbeat
		h.server <- nil
		return nil
	})
	return gnet.None
}

func (h *handler) OnClose(_ gnet.Conn, err error) gnet.Action {
	h.server <- err
	return gnet.None
}
