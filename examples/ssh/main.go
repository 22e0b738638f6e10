// Command ssh is an SSH server. Its shell echoes lines.
//
// Bytes from a client are life. Until its login there is a deadline as well, and the Keeper
// leaves it alone. A silent client is asked with the request of OpenSSH's ClientAliveInterval.
// So a silent user stays, and a machine or program without an answer goes.
//
// There is no goodbye: it would have to be encrypted, and the library has none.
package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

const loginGrace = 10 * time.Second

// maxSessions bounds the sessions of one client: each may have megabytes of unread input.
const maxSessions = 10

func main() {
	addr := flag.String("addr", "127.0.0.1:2222", "address to listen on, `host:port`; port 0 is any free one")
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
	login, err := newLogin()
	if err != nil {
		return err
	}
	var clients sync.Map // *client by net.Conn, for the Keeper's questions
	var running sync.WaitGroup
	defer running.Wait()
	k, err := keepalive.New(keepalive.Config{
		Timeout: timeout,
		Probe: keepalive.Probing{
			After: timeout / 2,
			Send: func(conn any) error {
				if c, ok := clients.Load(conn); ok {
					running.Go(c.(*client).ask)
				}
				return nil
			},
		},
		Room: keepalive.Room{MaxPerKey: 20},
		OnClose: func(conn any, reason keepalive.Reason) {
			logger.Info("closed", "remote", conn.(net.Conn).RemoteAddr(), "reason", reason.String())
		},
		Logger: logger,
	})
	if err != nil {
		return err
	}
	defer k.Close()

	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	logger.Info("listening", "addr", ln.Addr())
	ln = k.Listener(ln)
	context.AfterFunc(ctx, func() { ln.Close() })
	for {
		conn, err := ln.Accept()
		switch {
		case err == nil:
			running.Go(func() {
				if err := converse(conn, login, &clients); err != nil {
					logger.Debug("ended", "remote", conn.RemoteAddr(), "error", err)
				}
			})
		case ctx.Err() != nil:
			patience, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			return k.Drain(patience, 0)
		default:
			logger.Warn("not accepted", "error", err) // no descriptor left, say
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// newLogin lets everybody in, with a key made for the occasion. This is an example, on an
// address for this machine only.
func newLogin() (*ssh.ServerConfig, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return nil, err
	}
	login := &ssh.ServerConfig{NoClientAuth: true}
	login.AddHostKey(signer)
	return login, nil
}

// client is a client after its login.
type client struct {
	*ssh.ServerConn
	asked atomic.Bool // and has not answered
}

// ask waits for the answer. A client with other signs of life may never answer: it has one question at a time.
func (c *client) ask() {
	if c.asked.CompareAndSwap(false, true) {
		_, _, _ = c.SendRequest("keepalive@openssh.com", true, nil)
		c.asked.Store(false)
	}
}

// converse returns why the connection has ended.
func converse(conn net.Conn, login *ssh.ServerConfig, clients *sync.Map) error {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(loginGrace))
	server, channels, requests, err := ssh.NewServerConn(conn, login)
	if err != nil {
		return fmt.Errorf("logging in: %w", err)
	}
	_ = conn.SetDeadline(time.Time{})
	clients.Store(conn, &client{ServerConn: server})
	defer clients.Delete(conn)

	var running sync.WaitGroup
	defer running.Wait()
	var sessions atomic.Int64
	running.Go(func() { ssh.DiscardRequests(requests) }) // answers clients' own keepalives
	for offered := range channels {
		if sessions.Load() == maxSessions {
			_ = offered.Reject(ssh.ResourceShortage, "too many sessions")
			continue
		}
		if offered.ChannelType() != "session" {
			_ = offered.Reject(ssh.UnknownChannelType, "only sessions")
			continue
		}
		channel, requests, err := offered.Accept()
		if err != nil {
			break
		}
		sessions.Add(1)
		running.Go(func() {
			defer sessions.Add(-1)
			shell(channel, requests)
		})
	}
	return server.Wait()
}

// shell echoes lines once the client has asked for a shell, until "exit".
func shell(channel ssh.Channel, requests <-chan *ssh.Request) {
	var echoing sync.WaitGroup
	defer echoing.Wait()
	open := false
	for request := range requests {
		first := request.Type == "shell" && !open
		_ = request.Reply(first || request.Type == "pty-req", nil)
		if first {
			open = true
			echoing.Go(func() { _ = errors.Join(echo(channel), channel.Close()) })
		}
	}
	_ = channel.Close()
}

func echo(channel ssh.Channel) error {
	for in := bufio.NewScanner(channel); in.Scan() && in.Text() != "exit"; {
		if _, err := fmt.Fprintf(channel, "%s\r\n", in.Text()); err != nil {
			return err
		}
	}
	_, err := channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{0}))
	return err
}
