package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/heartwheel-go/heartwheel/loadtest/fleet"
	"github.com/heartwheel-go/heartwheel/loadtest/internal/proc"
)

// crew is the workers of a run, each on a thread of its own.
type crew struct {
	shared
	workers []*worker
	begin   chan struct{} // closed when there are servers
	quit    chan struct{} // closed, by quitOnce, when the crew is dismissed
	settled chan struct{} // closed when all workers have come to the end of the run
	threads sync.WaitGroup

	quitOnce sync.Once
	errs     chan error // of workers that could not go on
	procs    int        // GOMAXPROCS before
}

// shared is what the workers have in common.
type shared struct {
	cfg      config
	servers  []netip.AddrPort
	start    time.Time
	counters counters
	ramping  atomic.Int32 // workers whose connections are not all open
	driving  atomic.Int32 // workers that have not come to the end of the run
	unclosed atomic.Int64 // silent connections of all workers that are still to be closed
	timeline atomic.Pointer[timeline]
	series   *series      // nil if nobody wants it
	fleet    *fleet.Fleet // nil without a fleet
}

func (s *shared) now() time.Duration { return time.Since(s.start) }

// total is how many connections there are to be.
func (s *shared) total() int { return s.cfg.conns + s.cfg.probes }

// server returns the address of the server of a connection. Neighbours have the same one: with as many
// servers as workers each worker has its own.
func (s *shared) server(number int) netip.AddrPort {
	if number < s.cfg.conns {
		return s.servers[number*len(s.servers)/s.cfg.conns]
	}
	return s.servers[number%len(s.servers)] // a probe
}

// newCrew starts the threads, with descriptors of their own if the plan says so. The crew must be
// dismissed.
func newCrew(cfg config, p plan) (*crew, error) {
	c := &crew{begin: make(chan struct{}), quit: make(chan struct{}), settled: make(chan struct{})}
	c.cfg = cfg
	if cfg.html != "" {
		c.series = newSeries(cfg.expected())
	}
	if cfg.fleet.Nodes > 0 {
		c.fleet = fleet.New(cfg.fleet)
	}
	rnd := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	for i := range p.workers {
		first, next := i*cfg.conns/p.workers, (i+1)*cfg.conns/p.workers
		c.workers = append(c.workers, c.newWorker(role{
			first: first, conns: next - first,
			silent: cfg.silent, interval: cfg.interval, reply: cfg.reply,
			quantum: cfg.quantum, offset: time.Duration(i) * cfg.quantum / time.Duration(p.workers),
		}, rnd))
	}
	if cfg.probes > 0 {
		c.workers = append(c.workers, c.newWorker(role{
			first: cfg.conns, conns: cfg.probes, interval: probeInterval, reply: true, probes: true,
		}, rnd))
	}
	c.ramping.Store(int32(len(c.workers)))
	c.driving.Store(int32(len(c.workers)))
	c.errs = make(chan error, len(c.workers))

	// With fewer, a thread back from the kernel waits for its turn: a quarter more processor time.
	c.procs = runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), len(c.workers)+2))

	ready := make(chan error, len(c.workers))
	for _, w := range c.workers {
		c.threads.Go(func() { c.thread(w, p.ownFiles, ready) })
	}
	var errs error
	for range c.workers {
		if err := <-ready; errs == nil {
			errs = err
		}
	}
	if errs != nil {
		c.dismiss()
		return nil, errs
	}
	debug.FreeOSMemory() // what it took to make the schedules
	return c, nil
}

// thread is the life of a worker.
func (c *crew) thread(w *worker, ownFiles bool, ready chan<- error) {
	runtime.LockOSThread()
	if ownFiles {
		// Never unlocked: the thread ends with this function, and with it the
		// descriptors. What this process had open until now stays open in it, the runtime's epoll too. So
		// the crew comes before the servers: a copy of a server's pipe would keep the pipe from ending.
		if err := unix.Unshare(unix.CLONE_FILES); err != nil {
			ready <- fmt.Errorf("a thread can't have descriptors of its own here: unshare: %w", err)
			return
		}
	} else {
		defer runtime.UnlockOSThread()
	}
	if w.quantum > 0 {
		defer proc.WorkInBatches()()
	}
	defer w.closeFiles()
	err := w.openFiles()
	ready <- err
	if err != nil {
		return
	}
	select {
	case <-c.begin:
	case <-c.quit:
		return
	}
	if err := w.run(c.quit); err != nil {
		c.errs <- err
	}
	if c.driving.Add(-1) == 0 {
		close(c.settled)
	}
	<-c.quit // or what this one closes would disturb the others
}

// dismiss ends the threads and closes what they have opened. To do so again does
// nothing.
func (c *crew) dismiss() {
	c.quitOnce.Do(func() { close(c.quit) })
	c.threads.Wait()
	runtime.GOMAXPROCS(c.procs)
}

// drive opens the connections, sends their heartbeats, watches the servers, and returns the
// observations: with an error, all until then, or nil before the first connection. It tells m when the
// load is even.
func (c *crew) drive(ctx context.Context, addrs []string, m *meter) (*result, error) {
	if err := c.resolve(addrs); err != nil {
		return nil, err
	}
	c.start = time.Now()
	close(c.begin)
	stop := c.sample(m)
	err := c.phases(ctx, m)
	end, samples := c.now(), stop()
	if err != nil {
		c.dismiss() // who counts no more
	}
	return c.result(end, samples), err
}

// phases returns at the end of the run.
func (c *crew) phases(ctx context.Context, m *meter) error {
	line, err := c.awaitRamp(ctx)
	if err != nil {
		return err
	}
	m.begin()
	if c.fleet != nil {
		c.fleet.BeginSteady()
	}
	if err := c.await(ctx, c.start.Add(line.steadyEnd)); err != nil {
		return err
	}
	m.end()
	if c.fleet != nil && line.steadyEnd > 0 { // or nobody has come
		if line, err = c.act(ctx); err != nil {
			return err
		}
	}
	if err := c.await(ctx, c.start.Add(line.end+c.cfg.margin()+hangs)); err != nil {
		return err
	}
	select {
	case err := <-c.errs: // of the last one
		return err
	default:
	}
	if c.driving.Load() > 0 {
		return fmt.Errorf("a worker does not come to an end, %v after the last deadline", hangs+c.cfg.margin())
	}
	return nil
}

// sample takes samples for the page, if there is to be one, until stop.
func (c *crew) sample(m *meter) (stop func() []sample) {
	if c.series == nil {
		return func() []sample { return nil }
	}
	return m.sampleEvery(c.series.width, c.start)
}

// result adds up what the workers have seen, when they count no more.
func (c *crew) result(end time.Duration, samples []sample) *result {
	line := c.timeline.Load()
	res := &result{ramp: end, end: end}
	if line != nil {
		res.ramp = line.steady
	}
	for _, w := range c.workers {
		res.add(&w.result)
	}
	if c.fleet != nil {
		res.fleet = c.fleetReport(res)
	}
	if c.series != nil {
		res.history = &history{series: c.series, samples: samples, line: line, end: end}
	}
	return res
}

// act does to the fleet what the run is about, and sets the end of the run.
func (c *crew) act(ctx context.Context) (*timeline, error) {
	err := c.fleet.Act(ctx, c.await)
	if err != nil && ctx.Err() != nil {
		err = interrupted(ctx)
	}
	line := *c.timeline.Load()
	line.settling, line.end = c.now(), c.now()
	c.timeline.Store(&line)
	return &line, err
}

// fleetReport adds up what clients and nodes have seen, when the clients count no more.
func (c *crew) fleetReport(res *result) *fleet.Report {
	var clients []*fleet.Clients
	for _, w := range c.workers {
		clients = append(clients, w.clients)
	}
	r, excused := c.fleet.Report(c.start, res.end, res.sinceOpen().Max(), clients)
	res.wronglyClosed -= excused
	return r
}

const (
	rampPoll = 2 * time.Millisecond

	// rampPatience is for how long no connection may have been opened.
	rampPatience = 20 * time.Second

	// hangs is how much later than at the end of the run a worker may come to
	// its end.
	hangs = time.Minute
)

// awaitRamp waits until all connections are open, or nothing more comes of it, and
// sets what comes when.
func (c *crew) awaitRamp(ctx context.Context) (*timeline, error) {
	open, since := int64(0), c.start
	for c.ramping.Load() > 0 && time.Since(since) < rampPatience {
		if err := c.await(ctx, time.Now().Add(rampPoll)); err != nil {
			return nil, err
		}
		if n := c.counters.established.Load(); n > open {
			open, since = n, time.Now()
		}
	}
	line := c.cfg.timeline(c.now())
	if c.counters.established.Load() == 0 { // nobody to wait for
		line = &timeline{steady: line.steady}
	}
	c.timeline.Store(line)
	return line, nil
}

// await waits until a time, or until all workers have come to the end.
func (c *crew) await(ctx context.Context, until time.Time) error {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.settled:
	case err := <-c.errs:
		return err
	case <-ctx.Done():
		return interrupted(ctx)
	}
	return nil
}

// interrupted returns the cause of the end of ctx, unless it is the user's wish.
func interrupted(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return errors.New("interrupted")
}

// resolve finds the addresses of the servers.
func (c *crew) resolve(addrs []string) error {
	for _, a := range addrs {
		addr, err := net.ResolveTCPAddr("tcp", a)
		if err != nil {
			return fmt.Errorf("-addr %s: %w", a, err)
		}
		ip, ok := netip.AddrFromSlice(addr.IP)
		if !ok { // none given
			ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
		}
		c.servers = append(c.servers, netip.AddrPortFrom(ip.Unmap(), uint16(addr.Port)))
	}
	return nil
}
