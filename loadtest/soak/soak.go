package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/loadtest/internal/child"
	"github.com/heartwheel-go/heartwheel/loadtest/internal/netns"
)

const (
	sources = 16   // addresses of the clients' machines
	ramp    = 2000 // clients per second that come at the beginning
)

// machine is the vanishing one.
var machine = netip.MustParseAddr("10.99.0.1")

// soak is a run.
type soak struct {
	cfg      config
	rules    rules
	tally    *tally
	lateness lateness
	here     *presence
	out      io.Writer

	dialing sync.RWMutex // held by clients while they dial, so that each connection is counted by its server
	serving *generation
}

// serve lets the clients dial another server. It waits for those that still dial the one before.
func (s *soak) serve(g *generation) {
	s.dialing.Lock()
	defer s.dialing.Unlock()
	s.serving = g
}

// soakInNetns runs all of it in a network of its own, if it may.
func soakInNetns(ctx context.Context, cfg config, args []string, stdout, stderr io.Writer) (exit int, err error) {
	if os.Geteuid() == 0 && !netns.IsInside() {
		return netns.Run(ctx, append(args, "-seed", fmt.Sprint(cfg.seed)), stdout, stderr, (*exec.Cmd).Start)
	}
	if netns.IsInside() {
		if err := netns.Enter(); err != nil {
			return 0, err
		}
	}
	s := newSoak(cfg, stdout)
	if err := s.run(ctx); err != nil {
		return 0, err
	}
	pass := s.tally.write(stdout)
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if !pass {
		fmt.Fprintln(stdout, "verdict fail")
		return exitFailure, nil
	}
	fmt.Fprintln(stdout, "verdict pass")
	return 0, nil
}

func newSoak(cfg config, out io.Writer) *soak {
	r := newRules(cfg.timeout)
	return &soak{
		cfg: cfg, rules: r, tally: newTally(), here: newPresence(), out: out,
		// From a ping, after half a timeout, until an eviction, after 0.7.
		lateness: lateness{notable: r.timeout / 5, keep: r.longest},
	}
}

func (s *soak) run(ctx context.Context) error {
	runtime.LockOSThread() // the server ends with this thread
	defer runtime.UnlockOSThread()
	dir, err := os.MkdirTemp("", "soak")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	with := settings{file: filepath.Join(dir, "config"), conns: s.cfg.conns, rules: newRules(s.cfg.timeout)}
	if with.binary, err = child.Build(ctx, dir, "github.com/heartwheel-go/heartwheel/cmd/echo-heartbeat"); err != nil {
		return err
	}
	if err := with.write(with.rules.timeout); err != nil {
		return err
	}
	d := &director{soak: s, settings: with, rnd: rand.New(rand.NewPCG(s.cfg.seed, 1))}
	if d.server, err = with.start(ctx, &generation{addr: "127.0.0.1:0"}); err != nil {
		return err
	}
	defer func() { d.server.Kill() }()
	d.server.addr = d.server.Addr // the next one has it, too
	s.serve(d.server.generation)
	fmt.Fprintf(s.out, "seed %d: %d clients, timeout %v, for %v\n", s.cfg.seed, s.cfg.conns, s.cfg.timeout, s.cfg.time)

	living, stop := context.WithCancel(ctx)
	defer stop()
	if netns.IsInside() {
		if err := netns.AddAddress(machine); err != nil {
			return err
		}
	} else {
		fmt.Fprintln(s.out, "nobody vanishes: only root can make a network namespace for that")
	}
	var clients sync.WaitGroup
	if err := s.lateness.watch(living, &clients); err != nil {
		return err
	}
	s.populate(living, &clients)
	err = d.direct(ctx)
	stop()
	clients.Wait()
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "the clients heard by at most %v too late\n", s.lateness.longest.Round(time.Millisecond))
	return d.finish(ctx)
}

// populate starts the clients, one after the other.
func (s *soak) populate(ctx context.Context, clients *sync.WaitGroup) {
	const together = 20
	limit := time.NewTicker(together * time.Second / ramp)
	defer limit.Stop()
	for i, k := range population(s.cfg.conns) {
		if i%together == 0 {
			<-limit.C
		}
		if k.vanish && !netns.IsInside() {
			k = &kinds[0]
		}
		c := &client{soak: s, kind: k, rnd: rand.New(rand.NewPCG(s.cfg.seed, uint64(i)+2)), from: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+i%sources))}}
		if k.vanish {
			c.from = &net.TCPAddr{IP: machine.AsSlice()}
		}
		clients.Go(func() { c.live(ctx) })
	}
}

// patience is how long a dead client waits for its end. The longest pause of the server comes on top, and again
// that long for what waited.
func (s *soak) patience() time.Duration { return s.rules.patience() + 2*s.longestPause() }

func (s *soak) longestPause() time.Duration { return 2 * s.cfg.timeout }

// isOver reports whether the server should have ended a client. Such a client never ends by itself.
func (s *soak) isOver(e ending) bool {
	const strikes = 3 * 10 * time.Second // of the rules about rates
	return !e.kind.lives && (time.Since(e.life) > s.patience() || time.Since(e.dialed) > s.patience()+2*strikes)
}

// presence is whether the vanishing machine is here.
type presence struct {
	mu   sync.Mutex
	back chan struct{} // closed while it is here
}

func newPresence() *presence {
	p := &presence{back: make(chan struct{})}
	close(p.back)
	return p
}

func (p *presence) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.back = make(chan struct{})
}

func (p *presence) comeBack() { close(p.now()) }

func (p *presence) now() chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.back
}

// left reports whether the machine is away.
func (p *presence) left() bool {
	select {
	case <-p.now():
		return false
	default:
		return true
	}
}

// wait waits until it is here. It reports false if the context ended before.
func (p *presence) wait(ctx context.Context) bool {
	select {
	case <-p.now():
		return true
	case <-ctx.Done():
		return false
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
