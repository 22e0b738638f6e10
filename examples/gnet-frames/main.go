// Command gnet-frames echoes frames on gnet: four bytes of length, most significant
// first, and as many bytes.
//
// Whole frames are life. An empty frame is a heartbeat. The server asks a silent peer with
// one, and the peer answers with another. A peer may also send one unasked, to stay. The
// farewell is a frame like any other.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/gnetkeepalive"
)

const maxPending = 1 << 20 // bytes a peer has asked for and not read

func main() {
	addr := flag.String("addr", "127.0.0.1:9001", "address to listen on, `host:port`; port 0 is any free one")
	timeout := flag.Duration("timeout", 30*time.Second, "how long a connection may be silent")
	flag.Parse()
	switch {
	case *timeout <= 0:
		log.Fatalf("-timeout %v: must be positive", *timeout)
	case flag.NArg() > 0:
		log.Fatalf("unexpected argument %q: there are only flags", flag.Arg(0))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := serve(ctx, *addr, *timeout, slog.Default()); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, addr string, timeout time.Duration, logger *slog.Logger) error {
	k, err := keepalive.New(keepalive.Config{
		Timeout:  timeout,
		Activity: keepalive.ActivityManual,
		Probe: keepalive.Probing{
			After: timeout / 2,
			Send: func(conn any) error { // in the connection's event loop
				_, err := conn.(gnet.Conn).Write(frame(nil))
				return err
			},
		},
		Closing: keepalive.Closing{
			Farewell: func(_ any, reason keepalive.Reason) []byte {
				return frame([]byte(reason.String()))
			},
		},
		Room: keepalive.Room{
			MaxPerKey: 500,                                      // without descriptors, gnet stops: see also MaxConns
			Pressure:  keepalive.Pressure{Timeout: timeout / 4}, // while descriptors run out
		},
		OnClose: func(conn any, reason keepalive.Reason) {
			logger.Info("closed", "remote", conn.(net.Conn).RemoteAddr(), "reason", reason.String())
		},
		Logger: logger,
	})
	if err != nil {
		return err
	}
	defer k.Close()

	h := &frames{logger: logger, booted: make(chan gnet.Engine, 1)}
	ended := make(chan error, 1)
	go func() {
		ended <- gnet.Run(gnetkeepalive.Wrap(h, k), "tcp://"+addr, gnet.WithMulticore(true))
	}()
	select {
	case eng := <-h.booted:
		stopped := make(chan struct{})
		unused := context.AfterFunc(ctx, func() { stop(eng, k); close(stopped) })
		if err = <-ended; !unused() {
			<-stopped
		}
	case err = <-ended:
	}
	if err == nil && ctx.Err() == nil {
		err = errors.New("gnet has stopped by itself") // gnet takes this for no error
	}
	return err
}

// stop says goodbye, and then ends the connections of newcomers.
func stop(eng gnet.Engine, k *keepalive.Keeper) {
	patience, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = k.Drain(patience, 0)
	_ = eng.Stop(patience)
}

type frames struct {
	gnet.BuiltinEventEngine
	logger *slog.Logger
	booted chan gnet.Engine
}

func (h *frames) OnBoot(eng gnet.Engine) gnet.Action {
	addr, err := gnetkeepalive.Addr(eng) // gnet knows only the requested address, such as port 0
	if err != nil {
		h.logger.Error("no address", "error", err)
		return gnet.Shutdown
	}
	h.logger.Info("listening", "addr", addr)
	h.booted <- eng
	return gnet.None
}

func (h *frames) OnTraffic(c gnet.Conn) gnet.Action {
	buf, err := c.Peek(-1)
	if err != nil {
		return gnet.Close
	}
	rest := buf
	for {
		payload, after, err := next(rest)
		if err != nil {
			h.logger.Info("not a frame", "remote", c.RemoteAddr(), "error", err)
			return gnet.Close
		}
		if after == nil {
			break
		}
		rest = after
		keepalive.Of(c).Pong() // a touch, and a round trip if we have asked
		if len(payload) > 0 {
			if _, err := c.Write(frame(payload)); err != nil {
				return gnet.Close
			}
		}
	}
	if done := len(buf) - len(rest); done > 0 {
		_, _ = c.Discard(done) // not with 0: 0 would discard all
	}
	if c.OutboundBuffered() > maxPending {
		return gnet.Close
	}
	return gnet.None
}

const (
	maxFrame = 16 << 10 // bytes
	lenBytes = 4
)

// next returns the payload of the first frame of buf, and the bytes after it. after is nil if
// the frame is not complete yet.
func next(buf []byte) (payload, after []byte, err error) {
	if len(buf) < lenBytes {
		return nil, nil, nil
	}
	n := binary.BigEndian.Uint32(buf)
	if n > maxFrame {
		return nil, nil, fmt.Errorf("a frame of %d bytes: must be at most %d", n, maxFrame)
	}
	end := lenBytes + int(n)
	if len(buf) < end {
		return nil, nil, nil
	}
	return buf[lenBytes:end], buf[end:], nil
}

func frame(payload []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}
