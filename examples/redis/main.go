// Command redis speaks the protocol of Redis, with redcon: PING, ECHO, GET, SET,
// SUBSCRIBE, PUBLISH, DEBUG SLEEP and QUIT.
//
// Whole commands are life. As with Redis itself, a silent client is closed without a word. Its
// library would take an unasked error for the answer to its next command. And it notices the
// end of a connection in its pool by itself. As with Redis, a subscriber may be silent for
// ever.
//
// redcon has SetIdleClose, a read deadline before each command. A few hundred
// connections need no more than that.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tidwall/redcon"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:6380", "address to listen on, `host:port`; port 0 is any free one")
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
		Room:     keepalive.Room{MaxConns: 10_000, MaxPerKey: 1000}, // Redis has maxclients
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
	s := &store{keeper: k}
	srv := redcon.NewServer(addr, s.handle, nil, nil)
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	logger.Info("listening", "addr", ln.Addr())
	err = srv.Serve(k.Listener(ln)) // closes all but subscribers: it does not know them

	patience, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(err, k.Drain(patience, 0))
}

type store struct {
	keeper *keepalive.Keeper
	values sync.Map
	pubsub redcon.PubSub
}

// handle is called for whole commands only.
func (s *store) handle(conn redcon.Conn, cmd redcon.Command) {
	release := keepalive.Of(conn.NetConn()).Hold() // a slow command is no silence
	defer release()                                // and a touch
	name := strings.ToUpper(string(cmd.Args[0]))
	if n, known := arity[name]; !known {
		conn.WriteError("ERR unknown command '" + name + "'")
		return
	} else if len(cmd.Args) != n && (n > 0 || len(cmd.Args) < -n) {
		conn.WriteError("ERR wrong number of arguments for '" + name + "' command")
		return
	}
	switch name {
	case "PING":
		conn.WriteString("PONG")
	case "ECHO":
		conn.WriteBulk(cmd.Args[1])
	case "SET":
		s.values.Store(string(cmd.Args[1]), string(cmd.Args[2]))
		conn.WriteString("OK")
	case "GET":
		value, _ := s.values.Load(string(cmd.Args[1]))
		conn.WriteAny(value)
	case "SUBSCRIBE":
		keepalive.Of(conn.NetConn()).Hold() // for good: it listens
		for _, channel := range cmd.Args[1:] {
			s.pubsub.Subscribe(conn, string(channel))
		}
	case "PUBLISH":
		conn.WriteInt(s.pubsub.Publish(string(cmd.Args[1]), string(cmd.Args[2])))
	case "DEBUG":
		sleep(conn, cmd)
	case "QUIT":
		conn.WriteString("OK")
		_ = conn.Close()
	}
}

// arity is how many words a command has, as Redis counts them: -2 means two or more.
var arity = map[string]int{
	"PING": 1, "ECHO": 2, "SET": 3, "GET": 2, "SUBSCRIBE": -2, "PUBLISH": 3, "DEBUG": 3, "QUIT": 1,
}

func sleep(conn redcon.Conn, cmd redcon.Command) {
	seconds, err := strconv.ParseFloat(string(cmd.Args[2]), 64)
	if err != nil || !strings.EqualFold(string(cmd.Args[1]), "SLEEP") || !(seconds >= 0 && seconds <= 60) {
		conn.WriteError("ERR only DEBUG SLEEP, of 0 to 60 seconds")
		return
	}
	time.Sleep(time.Duration(seconds * float64(time.Second)))
	conn.WriteString("OK")
}
