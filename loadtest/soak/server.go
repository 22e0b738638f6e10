package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/heartwheel-go/heartwheel/debughttp"
	"github.com/heartwheel-go/heartwheel/loadtest/internal/child"
)

// generation is one process of the server, as the clients know it.
type generation struct {
	addr      string
	listening atomic.Bool  // it has begun to listen
	leaving   atomic.Bool  // it was told to end
	dialed    atomic.Int64 // connections of the clients
}

// serves reports whether it takes connections.
func (g *generation) serves() bool { return g.listening.Load() && !g.leaving.Load() }

// server is the server under test. The director's goroutine uses it.
type server struct {
	*generation
	*child.Process

	admin   chan string // the address of its admin pages, once
	base    string      // of their URLs
	client  *http.Client
	logged  chan struct{} // after a reload
	settled time.Time     // memory and descriptors count from here on
}

// settings are the flags and the file of the server: every policy is on.
type settings struct {
	binary, file string
	conns        int
	rules        rules
}

// write writes the config file, with one of the timeouts and limits that take turns.
func (s settings) write(timeout time.Duration) error {
	r := s.rules
	minRate := max(1, int(10*time.Second/r.timeout)) // of bytes
	lines := []string{
		"timeout " + timeout.String(),
		"first-message " + r.first.String(),
		"probe-after " + (r.timeout / 2).String(),
		"max-age " + r.maxAge.String(),
		"max-age-grace " + (r.timeout / 2).String(),
		"min-beat " + (r.timeout / 200).String(),
		"min-rate " + strconv.Itoa(minRate),
		"max-conns " + strconv.Itoa(s.conns*97/100),
		"max-per-key " + strconv.Itoa(s.conns/sources*2+int(timeout/time.Second)),
		"pressure-timeout " + (r.timeout / 2).String(),
		"max-close-per-second 5000",
		"max-outbound 65536",
	}
	return os.WriteFile(s.file, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// start starts the server on the address of a generation, and waits until it listens. The thread must be locked,
// and stay until it has ended.
func (s settings) start(ctx context.Context, g *generation) (*server, error) {
	srv := &server{generation: g, admin: make(chan string, 1), logged: make(chan struct{}, 1)}
	// A connection of its own for each request, as the admin pages have it.
	srv.client = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	srv.Process = child.New(s.binary, []string{
		"-addr", g.addr, "-admin", "127.0.0.1:0", "-config", s.file, "-log-format", "json",
		"-full", "evict", "-evict-min-idle", s.rules.evictMinIdle.String(), "-close-mode", "half",
		"-drain-delay", (s.rules.timeout / 10).String(), "-drain", (s.rules.timeout / 3).String(),
	}, nil)
	if err := srv.Start(srv.hear, nil); err != nil {
		return nil, err
	}
	if err := srv.Listens(ctx); err != nil {
		srv.Kill()
		return nil, err
	}
	g.listening.Store(true)
	srv.base = "http://" + <-srv.admin
	return srv, nil
}

// hear gets each line of the log.
func (srv *server) hear(line []byte) {
	switch msg, addr := srv.Remember(line); {
	case msg == child.SaysListening:
		srv.ListensAt(addr)
	case msg == "admin: listening":
		srv.admin <- addr // it comes before
	case strings.HasPrefix(msg, "reloaded"):
		srv.logged <- struct{}{}
	}
}

// reload has the server read its file again.
func (srv *server) reload(ctx context.Context) error {
	if err := syscall.Kill(srv.PID(), syscall.SIGHUP); err != nil {
		return err
	}
	select {
	case <-srv.logged:
		return nil
	case <-time.After(30 * time.Second):
		return fmt.Errorf("the server does not reload within 30s")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pause stops the server for a while, as a debugger or a frozen machine would.
func (srv *server) pause(ctx context.Context, d time.Duration) error {
	if err := syscall.Kill(srv.PID(), syscall.SIGSTOP); err != nil {
		return err
	}
	sleep(ctx, d)
	return syscall.Kill(srv.PID(), syscall.SIGCONT)
}

// end has the server say goodbye to everybody, and end.
func (srv *server) end(ctx context.Context) error {
	srv.leaving.Store(true)
	if err := srv.Terminate(); err != nil {
		return err
	}
	return srv.Ended(ctx)
}

// healthy returns why the server is not healthy.
func (srv *server) healthy(ctx context.Context) error { return srv.get(ctx, "/healthz", nil) }

// stats returns the server's figures.
func (srv *server) stats(ctx context.Context) (s debughttp.Snapshot, err error) {
	return s, srv.get(ctx, "/debug/wheel?format=json", &s)
}

// has returns how many connections a machine has, as the server sees it.
func (srv *server) has(ctx context.Context, machine netip.Addr) (int, error) {
	var page debughttp.Listing
	err := srv.get(ctx, "/debug/wheel?view=connections&format=json&limit=1&addr="+machine.String(), &page)
	return page.Total, err
}

func (srv *server) get(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.base+path, nil)
	if err != nil {
		return err
	}
	res, err := srv.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", path, res.Status)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(res.Body).Decode(into)
}
