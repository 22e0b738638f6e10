// Command gnet-lines echoes lines on gnet. gnet has no deadlines of its own.
//
// Whole lines are life, so bytes without an end do not keep a connection. A silent peer hears
// why it is closed, and so does one without room.
package main

import (
	"bytes"
	"context"
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

const (
	maxLine    = 16 << 10 // bytes
	maxPending = 1 << 20  // bytes a peer has asked for and not read
)

func main() {
	addr := flag.String("addr", "127.0.0.1:9000", "address to listen on, `host:port`; port 0 is any free one")
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
		Room: keepalive.Room{
			MaxPerKey: 500,                                      // without descriptors, gnet stops: see also MaxConns
			Pressure:  keepalive.Pressure{Timeout: timeout / 4}, // while descriptors run out
		},
		Closing: keepalive.Closing{
			Farewell: func(_ any, reason keepalive.Reason) []byte {
				return fmt.Appendf(nil, "BYE %v\n", reason.String())
			},
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

	h := &lines{logger: logger, booted: make(chan gnet.Engine, 1)}
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

type lines struct {
	gnet.BuiltinEventEngine
	logger *slog.Logger
	booted chan gnet.Engine
}

func (h *lines) OnBoot(eng gnet.Engine) gnet.Action {
	addr, err := gnetkeepalive.Addr(eng) // gnet knows only the requested address, such as port 0
	if err != nil {
		h.logger.Error("no address", "error", err)
		return gnet.Shutdown
	}
	h.logger.Info("listening", "addr", addr)
	h.booted <- eng
	return gnet.None
}

func (h *lines) OnTraffic(c gnet.Conn) gnet.Action {
	buf, err := c.Peek(-1)
	if err != nil {
		return gnet.Close
	}
	whole := bytes.LastIndexByte(buf, '\n') + 1
	if whole > 0 {
		keepalive.Touch(c)
		if _, err := c.Write(buf[:whole]); err != nil {
			return gnet.Close
		}
		_, _ = c.Discard(whole) // not with 0: 0 would discard all
	}
	if len(buf)-whole > maxLine {
		_, _ = c.Write([]byte("ERR line too long\n"))
		return gnet.Close
	}
	if c.OutboundBuffered() > maxPending {
		return gnet.Close
	}
	return gnet.None
}

// OnRefuse is gnetkeepalive's: the last words to a refused connection.
func (h *lines) OnRefuse(_ gnet.Conn, reason keepalive.Reason) []byte {
	return fmt.Appendf(nil, "ERR %v\n", reason.String())
}
