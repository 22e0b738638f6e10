package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/examples/internal/example"
	"github.com/heartwheel-go/heartwheel/fleet"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/server"
)

const (
	silence = time.Minute      // the servers' timeout
	lease   = 30 * time.Second // of a session of a dead server

	// patience is how long anything may take that is done at once on a machine with time for it.
	patience = time.Minute
)

// node is one server. The protocol of its clients, beside that of package server:
//
//	HELLO name    WELCOME new         nobody knows the session
//	              WELCOME resumed     its server has left it, and nothing is lost
//	              WELCOME moved       the same, and its server has not told Redis yet
//	DO 7          DONE 7              a request
//
// The answer to whatever was done comes before BYE. What has no answer then was not done: it is safe to ask again,
// elsewhere.
type node struct {
	server   *server.Server
	fleet    *fleet.Node // nil without a fleet
	log      *slog.Logger
	done     atomic.Int64 // requests
	offlines atomic.Int64 // sessions told to be offline

	mu  sync.Mutex // held while a report is written
	out io.Writer
}

// serverReport is what a server says at its end, and whenever a session is told to be offline.
type serverReport struct {
	Done     int64 `json:"done"`
	Offlines int64 `json:"offlines"`
}

func runServer(ctx context.Context, args []string, stdout, stderr io.Writer) (exit int) {
	flags := flag.NewFlagSet(asServer, flag.ContinueOnError)
	name := flags.String("name", "", "")
	addr := flags.String("addr", "", "")
	admin := flags.String("admin", "", "")
	prefix := flags.String("prefix", "", "")
	delay := flags.Duration("delay", 0, "")
	drain := flags.Duration("drain", 0, "")
	if err := example.Parse(flags, args, stderr); err != nil {
		fmt.Fprintln(stderr, err)
		return exitUsage
	}
	n := &node{log: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn})), out: stdout}
	err := n.run(ctx, *addr, *admin, *delay, *drain, fleet.Config{Node: *name, Prefix: *prefix})
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", *name, err)
		return exitFailure
	}
	n.report()
	return 0
}

func (n *node) report() {
	n.mu.Lock()
	defer n.mu.Unlock()
	_ = json.NewEncoder(n.out).Encode(serverReport{n.done.Load(), n.offlines.Load()})
}

// run serves until ctx is done. Then, in this order: /readyz fails; for the delay the server goes on as ever; each
// connection gets its goodbye, spread over the drain, and its session waits to be resumed; the process ends.
func (n *node) run(ctx context.Context, addr, admin string, delay, drain time.Duration, sessions fleet.Config) (err error) {
	n.server, err = server.New(server.Config{
		Addr:       addr,
		Line:       n.line,
		DrainDelay: delay,
		Drain:      drain,
		Config: keepalive.Config{
			Timeout: silence,
			Closing: keepalive.Closing{
				Mode:    keepalive.CloseHalf, // or a client that is just asking may miss the goodbye
				Timeout: 5 * time.Second,
			},
			Logger: n.log,
		},
		ShutdownTimeout: delay + drain + patience,
	})
	if err != nil {
		return err
	}
	if url := os.Getenv("REDIS_URL"); url != "" {
		sessions.Keeper, sessions.Lease, sessions.Logger = n.server.Keeper(), lease, n.log
		sessions.OnEnd, sessions.OnOffline = bye, n.offline
		if n.fleet, err = fleet.Open(ctx, url, sessions); err != nil {
			return errors.Join(err, n.server.Shutdown(ctx))
		}
		defer n.fleet.Close()
	}
	pages := &http.Server{Addr: admin, Handler: http.HandlerFunc(n.ready), ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	ctx, end := context.WithCancel(ctx)
	defer end()
	go func() {
		failed <- pages.ListenAndServe()
		end()
	}()
	err = n.server.Run(ctx)
	_ = pages.Close()
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// ready is the page for the balancer.
func (n *node) ready(w http.ResponseWriter, _ *http.Request) {
	select {
	case <-n.server.Ready():
		if !n.server.Draining() {
			fmt.Fprintln(w, "ok")
			return
		}
	default:
	}
	http.Error(w, "not ready", http.StatusServiceUnavailable)
}

// line runs in the event loop of the connection, as the goodbye does: so a request is answered before, or not done.
func (n *node) line(c gnet.Conn, line []byte) (answer []byte, handled bool) {
	verb, arg, _ := bytes.Cut(line, []byte(" "))
	switch string(verb) {
	case "DO":
		n.done.Add(1)
		return append([]byte("DONE "), arg...), true
	case "HELLO":
		if n.fleet == nil {
			return []byte("WELCOME new"), true
		}
		go n.register(keepalive.Of(c).Context(), c, string(arg)) // it waits for Redis
		return nil, true
	}
	return nil, false // PING, say
}

func (n *node) register(life context.Context, c gnet.Conn, id string) {
	ctx, cancel := context.WithTimeout(life, patience)
	defer cancel()
	s, err := n.fleet.Register(ctx, c, id, nil)
	if err != nil {
		if ctx.Err() == nil {
			n.log.Warn("no session", "session", id, "error", err)
		}
		_ = c.Close()
		return
	}
	kind := "new"
	if s.Resumed() {
		kind = "resumed"
	} else if s.Moved() {
		kind = "moved"
	}
	_ = c.AsyncWrite([]byte("WELCOME "+kind+"\n"), nil)
}

// bye is the fleet's last word, such as to a client that is back on another connection.
func bye(s *fleet.Session, reason fleet.Reason) {
	_ = s.Conn().(gnet.Conn).AsyncWrite([]byte("BYE "+reason.String()+"\n"), nil)
}

func (n *node) offline(context.Context, fleet.Offline) error {
	n.offlines.Add(1)
	n.report()
	return nil
}
