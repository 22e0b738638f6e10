// Package gateway is the program of examples/fleet/gateway. Its description is there.
package gateway

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/fleet"
	"github.com/heartwheel-go/heartwheel/internal/rlimit"
	"github.com/heartwheel-go/heartwheel/server"
)

const (
	exitFailure = 1
	exitUsage   = 2

	// connecting is how long Redis may take to answer for the first time.
	connecting = 10 * time.Second

	// tellers is how many ends are told at the same time: as many as a node may tell. Each
	// only waits until its line is written. One write has the lines of all.
	tellers = 256
)

// Main runs the program until ctx is done, and returns its exit code.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) (exit int) {
	o, err := read(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		exit = exitUsage
	default:
		exit = exitFailure
		err = run(ctx, o, stdout, stderr)
	}
	if err == nil {
		return 0
	}
	if errors.Is(err, server.ErrArgument) || errors.Is(err, fleet.ErrArgument) {
		exit = exitUsage
	}
	fmt.Fprintf(stderr, "gateway: %v\n", err)
	return exit
}

// gateway is a server with the sessions of a node.
type gateway struct {
	log     *slog.Logger
	journal *journal
	server  *server.Server
	clients clients
	grace   time.Duration // for clients without a session

	node *fleet.Node // once open is closed
	open chan struct{}
}

func run(ctx context.Context, o options, stdout, stderr io.Writer) error {
	g := &gateway{log: o.logger(stderr), open: make(chan struct{}), grace: o.grace, clients: clients{all: make(map[gnet.Conn]*client)}}
	if o.server.Room.MaxConns > 0 {
		// If this is not enough, the server says so.
		_, _ = rlimit.Raise(o.server.Room.MaxConns + o.server.Room.MaxConns/16 + 1024)
	}
	o.server.Logger = g.log
	o.server.Line = g.line
	o.server.OnClose = g.closed
	if o.grace < o.server.Timeout {
		o.server.FirstMessage = o.grace
	}
	var err error
	if g.server, err = server.New(o.server); err != nil {
		return err
	}
	g.journal = newJournal(stdout, g.log)
	defer g.journal.close()

	running, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- g.server.Run(running) }()
	select {
	case <-g.server.Ready():
	case err := <-ended:
		return err
	}
	if err := g.join(ctx, o.redis, o.fleet); err != nil {
		stop()
		err = errors.Join(err, <-ended)
		g.clients.work.Wait() // their connections are closed
		return err
	}
	var background sync.WaitGroup
	background.Go(func() { g.figuresEach(running) })
	defer background.Wait()

	select {
	case <-ctx.Done():
		g.leave(o.drain)
		stop()
		err = <-ended
	case err = <-ended: // gnet has stopped by itself
		stop()
		g.leave(0)
	}
	background.Wait()
	g.figures()
	return err
}

// join makes the node. Its name can be the server's address, known only now. Clients may have
// said HELLO already: they wait.
func (g *gateway) join(ctx context.Context, redis string, cfg fleet.Config) (err error) {
	if cfg.Node == "" {
		cfg.Node = g.server.Addr().String()
	}
	cfg.Keeper, cfg.Calls = g.server.Keeper(), tellers
	cfg.OnOnline, cfg.OnOffline, cfg.OnEnd, cfg.Logger = g.online, g.offline, g.end, g.log
	ctx, cancel := context.WithTimeout(ctx, connecting)
	defer cancel()
	if g.node, err = fleet.Open(ctx, redis, cfg); err != nil {
		return err
	}
	close(g.open)
	g.log.Info("gateway: open", "node", cfg.Node)
	return nil
}

// leave gives the sessions to other nodes. The server runs meanwhile: its event loops close
// the connections.
func (g *gateway) leave(limit time.Duration) {
	g.clients.close()
	g.journal.part()
	g.log.Info("gateway: draining", "sessions", g.node.Len())
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := g.node.Drain(ctx); err != nil {
		g.log.Warn("gateway: not all sessions were left to be resumed", "left", g.node.Len(), "error", err)
	}
	g.clients.work.Wait()
	_ = g.node.Close()
}
