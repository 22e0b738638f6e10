// Command udp echoes datagrams, with a session for each address.
//
// Anybody can send a datagram from any address. So a stranger has to send a cookie first, and the
// server keeps nothing until then. A session without datagrams hears why it ends.
package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/udpkeepalive"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:9002", "address of UDP to listen on, `host:port`; port 0 is any free one")
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

func serve(ctx context.Context, addr string, timeout time.Duration, logger *slog.Logger) error {
	k, err := keepalive.New(keepalive.Config{
		Timeout: timeout,
		Room:    keepalive.Room{MaxConns: 100_000, MaxPerKey: 100},
		Closing: keepalive.Closing{Farewell: func(_ any, reason keepalive.Reason) []byte {
			return fmt.Appendf(nil, "BYE %v\n", reason.String())
		}},
		OnClose: func(conn any, reason keepalive.Reason) {
			logger.Info("closed", "remote", conn.(*udpkeepalive.Session[lines]).Peer(), "reason", reason.String())
		},
		Logger: logger,
	})
	if err != nil {
		return err
	}
	defer k.Close()
	socket, err := listen(addr)
	if err != nil {
		return err
	}
	conn := udpkeepalive.Wrap[lines](socket, k)
	conn.Accept = newCookies(conn).accept
	logger.Info("listening", "addr", conn.LocalAddr())

	var draining sync.WaitGroup
	defer draining.Wait()
	draining.Add(1)
	ended := context.AfterFunc(ctx, func() {
		defer draining.Done()
		patience, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = k.Drain(patience, 0) // while echo reads
		_ = conn.Close()
	})
	if err = echo(conn); ended() {
		draining.Done()
		_ = conn.Close()
	}
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func listen(addr string) (*net.UDPConn, error) {
	pc, err := net.ListenPacket("udp", addr)
	if err != nil {
		return nil, err
	}
	socket := pc.(*net.UDPConn)
	_ = socket.SetReadBuffer(4 << 20) // for the longest pause of this program
	return socket, nil
}

// lines is our part of a session: how many lines it has sent.
type lines int

func echo(conn *udpkeepalive.Conn[lines]) error {
	for buf := make([]byte, 64<<10); ; {
		n, session, err := conn.Read(buf)
		if err != nil {
			return err
		}
		session.Value++
		_, _ = fmt.Fprintf(session, "%d %s", session.Value, buf[:n]) // UDP may lose it anyway
	}
}

// cookies are known without a note of each: a cookie is a signature of the address.
type cookies struct {
	conn   *udpkeepalive.Conn[lines]
	secret []byte
}

func newCookies(conn *udpkeepalive.Conn[lines]) *cookies { return &cookies{conn, []byte(rand.Text())} }

// accept answers a stranger's datagram with a cookie. The answer must not be much longer than the
// datagram, or others use the server to flood a third party.
func (c *cookies) accept(datagram []byte, path udpkeepalive.Path) bool {
	want := c.of(path.Peer)
	if hmac.Equal(bytes.TrimSpace(datagram), want) {
		return true
	}
	_, _ = c.conn.WriteTo(append(want, '\n'), path)
	return false
}

func (c *cookies) of(peer netip.AddrPort) []byte {
	mac := hmac.New(sha256.New, c.secret)
	_, _ = mac.Write([]byte(peer.String()))
	return fmt.Appendf(nil, "%x", mac.Sum(nil)[:8])
}
