// Command gnet-coap answers CoAP requests on gnet, with a session for each address.
//
// Whole messages of CoAP are life, and other datagrams are not: with FirstMessage, the session of
// a stranger without CoAP ends soon. The answer to GET is the number of the peer's requests so far.
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
	"sync"
	"syscall"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/gnetkeepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/udpkeepalive"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:5683", "address of UDP to listen on, `host:port`; port 0 is any free one")
	timeout := flag.Duration("timeout", 30*time.Second, "how long an address may be silent")
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

// requests is our part of a session.
type requests int

func serve(ctx context.Context, addr string, timeout time.Duration, logger *slog.Logger) error {
	k, err := keepalive.New(keepalive.Config{
		Timeout:      timeout,
		Activity:     keepalive.ActivityManual,
		FirstMessage: timeout / 4,
		Room:         keepalive.Room{MaxConns: 100_000, MaxPerKey: 1000},
		OnClose: func(conn any, reason keepalive.Reason) {
			logger.Info("closed", "remote", conn.(*udpkeepalive.Session[requests]).Peer(), "reason", reason.String())
		},
		Logger: logger,
	})
	if err != nil {
		return err
	}
	defer k.Close()

	claim, err := claim(addr)
	if err != nil {
		return err
	}
	defer claim.Close()
	addr = claim.LocalAddr().String()
	h := &coap{logger: logger, addr: addr, claim: claim, booted: make(chan gnet.Engine, 1)}
	ended := make(chan error, 1)
	go func() {
		handler := gnetkeepalive.WrapUDP[requests](h, k)
		ended <- gnet.Run(handler, "udp://"+addr, gnet.WithMulticore(true), gnet.WithTicker(true), gnet.WithSocketRecvBuffer(4<<20))
	}()
	select {
	case eng := <-h.booted:
		stopped := make(chan struct{})
		unused := context.AfterFunc(ctx, func() { stop(eng); close(stopped) })
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

// claim takes the port of an address for this program alone, and then shares it with gnet. For UDP, gnet
// gives each event loop a socket of its own with SO_REUSEPORT: it would share a port of another program on
// gnet, and with port 0 each loop would have another port. Close the claim when gnet listens.
func claim(addr string) (net.PacketConn, error) {
	claim, err := net.ListenPacket("udp", addr)
	if err != nil {
		return nil, err
	}
	socket, err := claim.(*net.UDPConn).SyscallConn()
	if err == nil {
		lost := socket.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		})
		err = errors.Join(err, lost)
	}
	if err != nil {
		_ = claim.Close()
		return nil, err
	}
	return claim, nil
}

// stop ends the sessions, too. CoAP has no goodbye, or Keeper.Drain would come first.
func stop(eng gnet.Engine) {
	patience, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = eng.Stop(patience)
}

type coap struct {
	gnet.BuiltinEventEngine
	logger *slog.Logger
	addr   string
	claim  net.PacketConn
	booted chan gnet.Engine

	listening sync.Once
}

func (h *coap) OnBoot(eng gnet.Engine) gnet.Action {
	if err := h.claim.Close(); err != nil {
		h.logger.Error("giving up the claim", "err", err)
	}
	h.booted <- eng
	return gnet.None
}

// OnTick comes once all loops have their sockets, and OnBoot before. In between, the kernel deals the peers
// anew to one socket more, and a peer on another loop has another session.
func (h *coap) OnTick() (time.Duration, gnet.Action) {
	h.listening.Do(func() { h.logger.Info("listening", "addr", h.addr) })
	return time.Hour, gnet.None
}

func (h *coap) OnTraffic(c gnet.Conn) gnet.Action {
	buf, err := c.Next(-1)
	if err != nil {
		return gnet.None
	}
	m, ok := parse(buf)
	if !ok {
		return gnet.None
	}
	session := c.SafeContext().(*udpkeepalive.Session[requests])
	keepalive.Touch(session)
	answer, ok := m.answer()
	if !ok {
		return gnet.None
	}
	text := ""
	if answer.code == content {
		session.Value++
		text = fmt.Sprintf("request %d", session.Value)
	}
	_, _ = c.Write(answer.append(nil, text)) // UDP may lose it anyway
	return gnet.None
}

// The part of CoAP (RFC 7252) needed here: no options are read, and none are written.
const (
	confirmable, nonConfirmable, acknowledgement, reset = 0, 1, 2, 3 // types

	empty, get, content, notAllowed = 0x00, 0x01, 0x45, 0x85 // codes: 0.00, 0.01, 2.05, 4.05

	version   = 1 << 6
	headerLen = 4
	maxToken  = 8
	payload   = 0xff // what comes after it
)

// message is a CoAP message, or the head of one.
type message struct {
	kind, code byte
	id         uint16
	token      []byte
}

// parse reports false for everything but CoAP.
func parse(b []byte) (m message, ok bool) {
	if len(b) < headerLen || b[0]>>6 != 1 {
		return m, false
	}
	n := int(b[0] & 0xf)
	if n > maxToken || len(b) < headerLen+n {
		return m, false
	}
	return message{
		kind:  b[0] >> 4 & 3,
		code:  b[1],
		id:    binary.BigEndian.Uint16(b[2:]),
		token: b[headerLen : headerLen+n],
	}, true
}

// append appends the message and its text, if there is one.
func (m message) append(b []byte, text string) []byte {
	b = append(b, version|m.kind<<4|byte(len(m.token)), m.code)
	b = binary.BigEndian.AppendUint16(b, m.id)
	b = append(b, m.token...)
	if text != "" {
		b = append(append(b, payload), text...)
	}
	return b
}

// answer returns the answer to a request, and true if there is one.
func (m message) answer() (answer message, ok bool) {
	answer = message{id: m.id, token: m.token, code: notAllowed}
	if m.code == get {
		answer.code = content
	}
	switch {
	case m.kind == confirmable && m.code == empty: // a ping
		return message{kind: reset, id: m.id}, true
	case m.kind == confirmable:
		answer.kind = acknowledgement
	case m.kind == nonConfirmable:
		answer.kind = nonConfirmable
	default:
		return message{}, false
	}
	return answer, m.code != empty
}
