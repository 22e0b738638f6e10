package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/examples/internal/example"
	"github.com/heartwheel-go/heartwheel/heartbeat"
	"github.com/heartwheel-go/heartwheel/internal/rlimit"
)

// backoff spreads the clients of a server that has ended: each waits for a random part of a second, and of up to
// twice as long after each failure.
var backoff = heartbeat.Backoff{First: time.Second, Max: 5 * time.Second}

const (
	// reporting is how often the clients say how many of them are online.
	reporting = 50 * time.Millisecond

	// arrival is the mean time between two clients of a process at the start.
	arrival = 500 * time.Microsecond
)

// client has a session, and one request at a time.
type client struct {
	id     string
	addr   string
	every  time.Duration
	tally  *tally
	asking context.Context // done when no more requests begin

	// Of its own goroutine, and of ask, which runs within a session.
	number  int       // of the last request
	pending bool      // that one has no answer
	gone    time.Time // when the last connection ended; zero before the first
}

// tally counts for all clients of a process.
type tally struct {
	online, pending atomic.Int64

	mu sync.Mutex // also held while a request begins
	clientsReport
}

// clientsReport is what a process of clients says, each time with all that was before.
type clientsReport struct {
	Online   int64            `json:"online"`
	Over     bool             `json:"over"`     // it is the last one
	Answered int64            `json:"answered"` // requests
	Again    int64            `json:"again"`    // requests without an answer at a goodbye, and sent again
	Failed   int64            `json:"failed"`   // requests without an answer when the connection was cut
	Byes     int64            `json:"byes"`     // connections that ended with a goodbye
	Cut      int64            `json:"cut"`      // and without one
	Attempts int64            `json:"attempts"` // failed ones to connect
	Error    string           `json:"error"`    // the first of these, or of the cut
	Kinds    map[string]int64 `json:"kinds"`    // of sessions, by the words of the servers to whom comes back
	Gaps     []int64          `json:"gaps"`     // milliseconds from the end of a connection to the next WELCOME; in the last report
}

func (t *tally) count(f func(r *clientsReport)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(&t.clientsReport)
}

// report writes a line for the program that has started this process.
func (t *tally) report(stdout io.Writer, over bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.clientsReport
	r.Online, r.Over = t.online.Load(), over
	if !over {
		r.Gaps = nil
	}
	_ = json.NewEncoder(stdout).Encode(r)
}

// runClients runs clients until ctx is done. Then it waits for the answers to their last requests.
func runClients(ctx context.Context, args []string, stdout, stderr io.Writer) (exit int) {
	flags := flag.NewFlagSet(asClients, flag.ContinueOnError)
	addr := flags.String("addr", "", "")
	first := flags.Int("first", 0, "")
	count := flags.Int("clients", 0, "")
	every := flags.Duration("every", 0, "")
	if err := example.Parse(flags, args, stderr); err != nil {
		fmt.Fprintln(stderr, err)
		return exitUsage
	}
	if _, err := rlimit.Raise(*count + 100); err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailure
	}
	t := &tally{clientsReport: clientsReport{Kinds: make(map[string]int64)}}
	living, leave := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for i := range *count {
		c := &client{id: fmt.Sprint("client-", *first+i), addr: *addr, every: *every, tally: t, asking: ctx}
		all.Go(func() { c.live(living, time.Duration(*count)*arrival) })
	}
	for ctx.Err() == nil {
		t.report(stdout, false)
		select {
		case <-time.After(reporting):
		case <-ctx.Done():
		}
	}
	t.report(stdout, false) // locked once, so each request either counts as pending or does not begin
	for end := time.Now().Add(patience); t.pending.Load() > 0 && time.Now().Before(end); {
		time.Sleep(reporting)
	}
	t.report(stdout, true)
	leave()
	all.Wait()
	return 0
}

// live keeps the client connected, after a moment that spreads the first connections.
func (c *client) live(ctx context.Context, spread time.Duration) {
	select {
	case <-time.After(rand.N(spread)):
	case <-ctx.Done():
		return
	}
	_ = heartbeat.Reconnect(ctx, backoff, c.dial, c.session)
}

func (c *client) dial(ctx context.Context) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", c.addr)
	if err != nil {
		c.missed(ctx, err)
	}
	return conn, err
}

// missed counts an attempt to connect that has failed.
func (c *client) missed(ctx context.Context, err error) {
	if ctx.Err() != nil { // the end of all
		return
	}
	c.tally.count(func(r *clientsReport) {
		r.Attempts++
		r.Error = cmp.Or(r.Error, err.Error())
	})
}

// session says HELLO, and sends requests and heartbeats until the connection ends.
func (c *client) session(ctx context.Context, conn net.Conn) error {
	beating := heartbeat.Wrap(conn)
	defer beating.Close()
	lines := bufio.NewScanner(beating)
	kind, err := c.hello(beating, lines)
	if err == nil {
		_, err = heartbeat.Start(beating, heartbeat.Options{
			Timeout: silence, Message: []byte("PING\n"), Answer: heartbeat.AnswerRead,
		})
	}
	if err != nil {
		c.missed(ctx, err)
		return err
	}
	c.here(kind)
	asking, stop := context.WithCancel(ctx)
	answers := make(chan struct{}, 1)
	var ask sync.WaitGroup
	ask.Go(func() { c.ask(asking, beating, answers) })
	bye := false
	for lines.Scan() {
		switch verb, _, _ := strings.Cut(lines.Text(), " "); verb {
		case "DONE": // the only one that is asked for
			answers <- struct{}{}
		case "BYE":
			bye = true
		}
	}
	stop()
	ask.Wait()
	err = cmp.Or(lines.Err(), io.EOF)
	if ctx.Err() == nil { // not the end of all
		c.left(bye, err)
	}
	return err
}

func (c *client) hello(conn net.Conn, lines *bufio.Scanner) (kind string, err error) {
	_ = conn.SetDeadline(time.Now().Add(patience))
	defer conn.SetDeadline(time.Time{}) //nolint:errcheck // a closed connection says so later
	if _, err := fmt.Fprintf(conn, "HELLO %s\n", c.id); err != nil {
		return "", err
	}
	if !lines.Scan() {
		return "", fmt.Errorf("no WELCOME: %w", cmp.Or(lines.Err(), io.EOF))
	}
	kind, ok := strings.CutPrefix(lines.Text(), "WELCOME ")
	if !ok {
		return "", fmt.Errorf("no WELCOME: %q", lines.Text())
	}
	return kind, nil
}

// here notes that the client has a server.
func (c *client) here(kind string) {
	c.tally.online.Add(1)
	if c.gone.IsZero() {
		return
	}
	gap := time.Since(c.gone).Milliseconds()
	c.tally.count(func(r *clientsReport) {
		r.Kinds[kind]++
		r.Gaps = append(r.Gaps, gap)
	})
}

// left notes the end of a connection. A request without an answer at a goodbye was not done. At a cut nobody knows.
func (c *client) left(bye bool, err error) {
	c.tally.online.Add(-1)
	c.gone = time.Now()
	c.tally.count(func(r *clientsReport) {
		switch {
		case bye && c.pending:
			r.Again++
		case c.pending:
			r.Failed++
			c.settle()
		}
		if bye {
			r.Byes++
			return
		}
		r.Cut++
		r.Error = cmp.Or(r.Error, "a connection was cut: "+err.Error())
	})
}

// begin begins a request, unless no more are to begin.
func (c *client) begin() bool {
	c.tally.mu.Lock()
	defer c.tally.mu.Unlock()
	if c.asking.Err() != nil {
		return false
	}
	c.number++
	c.pending = true
	c.tally.pending.Add(1)
	return true
}

// settle ends a request. The figures have it already: without pending requests they are complete.
func (c *client) settle() {
	c.pending = false
	c.tally.pending.Add(-1)
}

// ask sends one request after the other, first the one without an answer of the connection before.
func (c *client) ask(ctx context.Context, conn net.Conn, answers <-chan struct{}) {
	for {
		if !c.pending {
			select {
			case <-time.After(c.every/2 + rand.N(c.every)):
			case <-c.asking.Done():
				return
			case <-ctx.Done():
				return
			}
			if !c.begin() {
				return
			}
		}
		_, _ = fmt.Fprintf(conn, "DO %d\n", c.number) // an error ends the session
		select {
		case <-answers:
		case <-ctx.Done():
			select {
			case <-answers:
			default:
				return
			}
		}
		c.tally.count(func(r *clientsReport) { r.Answered++ })
		c.settle()
	}
}
