package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/process"
	"github.com/heartwheel-go/heartwheel/internal/redisserver"
)

// deploy has everything running.
type deploy struct {
	cfg    config
	out    io.Writer
	began  time.Time
	prefix string // of all keys in Redis
	host   string // of all addresses

	fleet     bool
	redis     *redisserver.Server // nil without a fleet
	dir       string
	servers   []*restarted
	balancers []*process.Process
	crowds    []*crowd

	// Of all servers so far.
	done     int64 // requests
	offlines int64 // sessions told to be offline
}

// restarted is a server that is restarted again and again, at the same address.
type restarted struct {
	name, addr, admin string
	*process.Process

	said   *lastLines
	report *latest[serverReport] // of its present process
}

// latest is the last report of a process.
type latest[T any] struct {
	mu     sync.Mutex
	report T
}

// hear takes a line of the process.
func (l *latest[T]) hear(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = json.Unmarshal(line, &l.report)
}

func (l *latest[T]) get() T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.report
}

// crowd is a process of clients.
type crowd struct {
	*process.Process
	said   *lastLines
	report *latest[clientsReport]
}

// lastLines keeps the last lines of a process.
type lastLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *lastLines) add(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines = append(l.lines, string(line)); len(l.lines) > 5 {
		l.lines = l.lines[1:]
	}
}

func (l *lastLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "; ")
}

func newDeploy(cfg config, fleet bool, out io.Writer) *deploy {
	return &deploy{cfg: cfg, fleet: fleet, out: out, began: time.Now(), prefix: "deploy-" + rand.Text()[:8], host: ownHost()}
}

func (d *deploy) say(format string, args ...any) {
	fmt.Fprintf(d.out, "%6.1fs  %s\n", time.Since(d.began).Seconds(), fmt.Sprintf(format, args...))
}

// play runs all, and reports whether nobody has noticed.
func (d *deploy) play(ctx context.Context) (pass bool, err error) {
	defer d.close()
	how := "without a fleet"
	if d.fleet {
		how = "with a fleet"
	}
	d.say("%s: %d clients of %d servers, %d rolling restarts", how, d.cfg.clients, d.cfg.servers, d.cfg.rounds)
	if err := d.open(ctx); err != nil {
		return false, err
	}
	for round := range d.cfg.rounds {
		for _, s := range d.servers {
			if err := d.restart(ctx, round+1, s); err != nil {
				return false, err
			}
		}
	}
	return d.judge()
}

// open starts Redis, the servers, the balancers and the clients, and waits until all are online.
func (d *deploy) open(ctx context.Context) (err error) {
	if d.fleet {
		if d.redis, err = redisserver.Start(ctx); err != nil {
			return err
		}
	}
	if d.dir, err = os.MkdirTemp("", "deploy"); err != nil {
		return err
	}
	for i := range d.cfg.servers {
		addrs, err := freeAddrs(d.host, 2)
		if err != nil {
			return err
		}
		s := &restarted{name: fmt.Sprint("server-", i+1), addr: addrs[0], admin: addrs[1]}
		d.servers = append(d.servers, s)
		if err := d.start(ctx, s); err != nil {
			return err
		}
	}
	for first := 0; first < d.cfg.clients; first += perBalancer {
		if err := d.come(first, min(perBalancer, d.cfg.clients-first)); err != nil {
			return err
		}
	}
	if err := d.await(ctx, "all clients are online", d.allOnline); err != nil {
		return err
	}
	d.say("all are online")
	return nil
}

// come starts a balancer with its clients.
func (d *deploy) come(first, clients int) error {
	addrs, err := freeAddrs(d.host, 1)
	if err != nil {
		return err
	}
	b, err := startBalancer(d.dir, addrs[0], d.servers, clients, d.cfg.delay)
	if err != nil {
		return err
	}
	d.balancers = append(d.balancers, b)
	c := &crowd{said: new(lastLines), report: new(latest[clientsReport])}
	c.Process, err = startSelf(c.report.hear, c.said.add, nil, asClients, "-addr", addrs[0], "-first", strconv.Itoa(first), "-clients", strconv.Itoa(clients), "-every", d.cfg.every.String())
	if err == nil {
		d.crowds = append(d.crowds, c)
	}
	return err
}

// start starts a server, and waits until it is ready.
func (d *deploy) start(ctx context.Context, s *restarted) (err error) {
	var env []string
	if d.fleet {
		env = append(os.Environ(), "REDIS_URL="+d.redis.URL)
	}
	s.report, s.said = new(latest[serverReport]), new(lastLines)
	s.Process, err = startSelf(s.report.hear, s.said.add, env,
		asServer, "-name", s.name, "-addr", s.addr, "-admin", s.admin, "-prefix", d.prefix, "-delay", d.cfg.delay.String(), "-drain", d.cfg.drain.String())
	if err != nil {
		return err
	}
	return d.await(ctx, s.name+" is ready", func() bool { return isReady(ctx, s.admin) })
}

func isReady(ctx context.Context, admin string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/readyz", nil)
	if err != nil {
		return false
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// startSelf starts a process of this program. env of nil is this one's.
func startSelf(stdout, stderr func(line []byte), env []string, args ...string) (*process.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, args...)
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = &process.Lines{Each: stdout}, &process.Lines{Each: stderr}
	p, err := process.Start(cmd)
	if err != nil {
		return nil, err // and no process to end
	}
	return p, nil
}

// await waits until a condition holds, as long as all processes run.
func (d *deploy) await(ctx context.Context, what string, holds func() bool) error {
	for end := time.Now().Add(patience + d.cfg.back); !holds(); {
		if err := d.fault(); err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("in vain waited until %s: %d of %d clients are online; %s", what, d.online(), d.cfg.clients, d.words())
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// fault returns an error if a process has ended by itself.
func (d *deploy) fault() error {
	ended := func(p *process.Process) bool {
		select {
		case <-p.Ended():
			return true
		default:
			return false
		}
	}
	for _, s := range d.servers {
		if s.Process != nil && ended(s.Process) {
			return fmt.Errorf("%s has ended by itself: %s", s.name, s.said)
		}
	}
	for _, c := range d.crowds {
		if ended(c.Process) {
			return fmt.Errorf("clients have ended by themselves: %s", c.said)
		}
	}
	for _, b := range d.balancers {
		if ended(b) {
			return errors.New("haproxy has ended by itself")
		}
	}
	if d.redis != nil {
		return d.redis.Err()
	}
	return nil
}

// words are the last ones of clients and servers.
func (d *deploy) words() string {
	var all []string
	for _, c := range d.crowds {
		all = append(all, c.report.get().Error, c.said.String())
	}
	for _, s := range d.servers {
		all = append(all, s.said.String())
	}
	return strings.Join(all, "; ")
}

func (d *deploy) online() (n int64) {
	for _, c := range d.crowds {
		n += c.report.get().Online
	}
	return n
}

func (d *deploy) allOnline() bool { return d.online() == int64(d.cfg.clients) }

// restart ends a server and starts the next one at its address. It waits until all clients are online, and the
// balancers know of the server.
func (d *deploy) restart(ctx context.Context, round int, s *restarted) error {
	told := time.Now()
	if d.cfg.kill {
		s.Kill()
	} else if err := d.stop(s); err != nil {
		return err
	}
	ended := time.Now()
	d.done += s.report.get().Done
	d.offlines += s.report.get().Offlines
	s.Process = nil
	if err := d.start(ctx, s); err != nil {
		return err
	}
	time.Sleep(2 * reporting) // until the clients have said who of them has gone
	if err := d.await(ctx, "all clients are back", d.allOnline); err != nil {
		return err
	}
	d.say("round %d: %s ended within %.1fs, %.1fs later all clients were back and it was ready", round, s.name, ended.Sub(told).Seconds(), time.Since(ended).Seconds())
	select {
	case <-time.After(d.cfg.delay):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stop lets a server end in peace.
func (d *deploy) stop(s *restarted) error {
	if err := s.Finish(d.cfg.delay + d.cfg.drain + 2*patience); err != nil {
		return fmt.Errorf("%s did not end well: %w: %s", s.name, err, s.said)
	}
	return nil
}

// stopServers stops all servers at the same time.
func (d *deploy) stopServers() error {
	ends := make(chan error)
	for _, s := range d.servers {
		go func() { ends <- d.stop(s) }()
	}
	var all error
	for range d.servers {
		all = errors.Join(all, <-ends)
	}
	for _, s := range d.servers {
		d.done += s.report.get().Done
		s.Process = nil
	}
	return all
}

// judge ends clients and servers, and says what they have noticed.
func (d *deploy) judge() (pass bool, err error) {
	for _, s := range d.servers {
		d.offlines += s.report.get().Offlines // before the clients leave
	}
	var f figures
	for _, c := range d.crowds {
		if err := c.Finish(2 * patience); err != nil {
			return false, fmt.Errorf("clients did not end well: %w: %s", err, c.said)
		}
		r := c.report.get()
		if !r.Over {
			return false, fmt.Errorf("clients did not say their figures: %s", c.said)
		}
		f.add(r)
	}
	d.crowds = nil
	if err := d.stopServers(); err != nil {
		return false, err
	}
	f.done, f.offlines = d.done, d.offlines
	for _, line := range f.lines(d.cfg) {
		d.say("  %s", line)
	}
	faults := f.faults(d.cfg, d.fleet)
	if len(faults) > 0 {
		d.say("verdict fail: %s", strings.Join(faults, "; "))
		return false, nil
	}
	d.say("verdict pass")
	return true, nil
}

// close ends all that runs.
func (d *deploy) close() {
	for _, c := range d.crowds {
		c.Kill()
	}
	for _, b := range d.balancers {
		b.Kill()
	}
	for _, s := range d.servers {
		if s.Process != nil {
			s.Kill()
		}
	}
	if d.redis != nil {
		d.redis.Stop()
	}
	if d.dir != "" {
		_ = os.RemoveAll(d.dir)
	}
}
