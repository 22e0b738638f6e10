// Command gnet-websocket echoes messages over WebSocket, with gobwas/ws on gnet: no connection has a goroutine.
//
// A silent peer is pinged. Pongs and whole messages are life, so a trickle of bytes does not keep a connection. If the
// peer does not answer, a close frame with status 1001 tells it why. All frames are written in the event loop of their
// connection, and whole, so none comes in the middle of another one.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"log"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gobwas/ws"
	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/gnetkeepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/wskeepalive"
)

const (
	maxFrame   = 64 << 10 // bytes
	maxHead    = 8 << 10  // bytes
	maxPending = 1 << 20  // bytes
)

func main() {
	addr := flag.String("addr", "127.0.0.1:9004", "address to listen on, `host:port`; port 0 is any free one")
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
		Timeout:      timeout,
		FirstMessage: timeout,                  // for the handshake: nobody is pinged before
		Activity:     keepalive.ActivityManual, // frames, not bytes
		Probe:        keepalive.Probing{Send: ping},
		Closing: keepalive.Closing{
			Mode:     keepalive.CloseHalf, // or a peer still sending may miss the close frame
			Farewell: goodbye,
		},
		Room: keepalive.Room{MaxPerKey: 1000},
		OnClose: func(conn any, reason keepalive.Reason) {
			logger.Info("closed", "remote", conn.(net.Conn).RemoteAddr(), "reason", reason.String())
		},
		Logger: logger,
	})
	if err != nil {
		return err
	}
	defer k.Close()

	h := &sockets{logger: logger, booted: make(chan gnet.Engine, 1)}
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

// ping is called in the event loop.
func ping(conn any) error {
	_, err := conn.(gnet.Conn).Write(ws.CompiledPing)
	return err
}

func goodbye(conn any, reason keepalive.Reason) []byte {
	if s, ok := conn.(gnet.Conn).Context().(*session); !ok || s.closed {
		return nil // it expects no frame yet, or none any more
	}
	return wskeepalive.CloseFrame(reason)
}

type sockets struct {
	gnet.BuiltinEventEngine
	logger *slog.Logger
	booted chan gnet.Engine
}

// session is a connection after its handshake.
type session struct {
	state  ws.State
	closed bool // the peer has said goodbye
}

func (h *sockets) OnBoot(eng gnet.Engine) gnet.Action {
	addr, err := gnetkeepalive.Addr(eng) // gnet knows only the requested address, such as port 0
	if err != nil {
		h.logger.Error("no address", "error", err)
		return gnet.Shutdown
	}
	h.logger.Info("listening", "addr", addr)
	h.booted <- eng
	return gnet.None
}

func (h *sockets) OnTraffic(c gnet.Conn) gnet.Action {
	buf, err := c.Peek(-1)
	if err != nil {
		return gnet.Close
	}
	rest, err := h.serve(c, buf)
	if err != nil {
		h.logger.Debug("ended", "remote", c.RemoteAddr(), "error", err)
		return gnet.Close // what was written to it is sent
	}
	if done := len(buf) - len(rest); done > 0 {
		_, _ = c.Discard(done) // not with 0: 0 would discard all
	}
	if c.OutboundBuffered() > maxPending {
		return gnet.Close
	}
	return gnet.None
}

// serve returns the bytes that are no whole frame yet.
func (h *sockets) serve(c gnet.Conn, buf []byte) (rest []byte, err error) {
	s, ok := c.Context().(*session)
	if !ok {
		end := bytes.Index(buf, []byte("\r\n\r\n")) + 4
		switch {
		case end < 4 && len(buf) <= maxHead:
			return buf, nil
		case end < 4:
			return nil, errors.New("the head is too long")
		}
		if _, err := ws.Upgrade(duplex{bytes.NewReader(buf[:end]), c}); err != nil {
			return nil, err // the peer knows
		}
		s = &session{state: ws.StateServerSide}
		c.SetContext(s)
		keepalive.Touch(c)
		buf = buf[end:]
	}
	for {
		frame, after, err := next(buf, s.state)
		if err != nil || after == nil {
			return buf, err
		}
		if err := s.handle(c, frame); err != nil {
			return nil, err
		}
		buf = after
	}
}

type duplex struct {
	io.Reader
	io.Writer
}

// next returns the first frame, and the bytes after it. after is nil if the frame is not complete yet.
func next(buf []byte, state ws.State) (frame ws.Frame, after []byte, err error) {
	h, err := ws.ReadHeader(bytes.NewReader(buf))
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return frame, nil, nil
	case err != nil:
		return frame, nil, err
	case h.Length > maxFrame:
		return frame, nil, errors.New("the frame is too long")
	}
	if err := ws.CheckHeader(h, state); err != nil {
		return frame, nil, err
	}
	begin := ws.HeaderSize(h)
	end := begin + int(h.Length)
	if len(buf) < end {
		return frame, nil, nil
	}
	ws.Cipher(buf[begin:end], h.Mask, 0)
	return ws.Frame{Header: h, Payload: buf[begin:end]}, buf[end:], nil
}

// handle answers a frame. It returns an error for the last one.
func (s *session) handle(c gnet.Conn, f ws.Frame) error {
	answer := ws.NewFrame(f.Header.OpCode, f.Header.Fin, f.Payload)
	switch f.Header.OpCode {
	case ws.OpPong:
		keepalive.Of(c).Pong() // a touch, and a round trip
		return nil
	case ws.OpPing:
		keepalive.Touch(c)
		answer = ws.NewPongFrame(f.Payload)
	case ws.OpClose:
		s.closed = true
	default:
		if f.Header.Fin {
			s.state = s.state.Clear(ws.StateFragmented)
			keepalive.Touch(c) // a whole message
		} else {
			s.state = s.state.Set(ws.StateFragmented)
		}
	}
	all, err := ws.CompileFrame(answer)
	if err == nil {
		_, err = c.Write(all)
	}
	if s.closed {
		err = errors.Join(err, io.EOF)
	}
	return err
}
