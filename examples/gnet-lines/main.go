// Command gnet-lines echoes lines on gnet. gnet has no deadlines of its own.
//
// Whole lines are life, so bytes without an end do not keep a connection. A silent peer hears
// why it is closed, and so does one without room.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/examples/internal/example"
	"github.com/heartwheel-go/heartwheel/internal/gnetsocket"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/gnetkeepalive"
)

const (
	maxLine    = 16 << 10 // bytes
	maxPending = 1 << 20  // bytes a peer has asked for and not read
)

func main() { example.Main("127.0.0.1:9000", serve) }

func serve(ctx context.Context, args example.Args) error {
	k, err := keepalive.New(keepalive.Config{
		Timeout:  args.Timeout,
		Activity: keepalive.ActivityManual,
		Room: keepalive.Room{
			MaxPerKey: 500,                                           // without descriptors, gnet stops: see also MaxConns
			Pressure:  keepalive.Pressure{Timeout: args.Timeout / 4}, // while descriptors run out
		},
		Closing: keepalive.Closing{
			Farewell: func(_ any, reason keepalive.Reason) []byte {
				return fmt.Appendf(nil, "BYE %v\n", reason.String())
			},
		},
		Logger: args.Log,
	})
	if err != nil {
		return err
	}
	defer k.Close()

	h := &lines{args: args, booted: make(chan gnet.Engine, 1)}
	ended := make(chan error, 1)
	go func() {
		ended <- gnet.Run(gnetkeepalive.Wrap(h, k), "tcp://"+args.Addr, gnet.WithMulticore(true))
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
	args   example.Args
	booted chan gnet.Engine
}

func (h *lines) OnBoot(eng gnet.Engine) gnet.Action {
	addr, err := gnetsocket.Addr(eng) // gnet knows only the requested address, such as port 0
	if err != nil {
		h.args.Log.Error("no address", "error", err)
		return gnet.Shutdown
	}
	h.args.Listening(addr)
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

func (h *lines) OnClose(c gnet.Conn, err error) gnet.Action {
	h.args.Closed(c.RemoteAddr(), err)
	return gnet.None
}
