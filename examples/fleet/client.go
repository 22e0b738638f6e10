package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/heartwheel-go/heartwheel/heartbeat"
)

const (
	// silence is the gateways' timeout. A client beats three times as often.
	silence = 6 * time.Second

	// greeting is how long a client waits for its WELCOME.
	greeting = 10 * time.Second
)

// backoff spreads returning clients: each waits at random, up to twice as long each time.
var backoff = heartbeat.Backoff{First: 500 * time.Millisecond, Max: 2 * time.Second}

// client is a client with a session. It connects again when the connection goes.
type client struct {
	id     string
	town   *town
	ledger *ledger

	away atomic.Bool // it does not come back
	at   string      // its last gateway; only its own goroutine uses it
}

// town has the gateways, as clients know them.
type town struct {
	mu    sync.Mutex
	nodes []*node
}

func (t *town) add(n *node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.nodes = append(t.nodes, n)
}

// all returns all gateways, even ended ones.
func (t *town) all() []*node {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.nodes)
}

// hasDead reports whether a gateway has ended by itself.
func (t *town) hasDead() bool {
	return slices.ContainsFunc(t.all(), func(n *node) bool {
		state, _ := n.now()
		return state == died
	})
}

// others returns all gateways in any order, the named one last. Clients don't know the dead
// ones.
func (t *town) others(than string) []*node {
	all := t.all()
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if i := slices.IndexFunc(all, func(n *node) bool { return n.name == than }); i >= 0 {
		all = append(slices.Delete(slices.Clone(all), i, i+1), all[i])
	}
	return all
}

// final is the end of a session without a return of its client.
type final string

func (f final) Error() string { return string(f) }

// Retryable is for heartbeat.Reconnect.
func (f final) Retryable() bool { return false }

// live keeps the client connected until ctx is done, or until an end is final.
func (c *client) live(ctx context.Context, first *node) {
	_ = heartbeat.Reconnect(ctx, backoff, func(ctx context.Context) (net.Conn, error) {
		if c.at == "" {
			return c.dial(ctx, []*node{first})
		}
		return c.dial(ctx, c.town.others(c.at))
	}, c.session)
}

// dial connects to the first gateway within reach.
func (c *client) dial(ctx context.Context, tries []*node) (conn net.Conn, err error) {
	var dialer net.Dialer
	for _, n := range tries {
		if conn, err = dialer.DialContext(ctx, "tcp", n.addr); err == nil {
			c.at = n.name
			return conn, nil
		}
	}
	return nil, err
}

// session says HELLO, and beats until the connection goes.
func (c *client) session(_ context.Context, conn net.Conn) error {
	beating := heartbeat.Wrap(conn)
	defer beating.Close()
	_ = beating.SetDeadline(time.Now().Add(greeting))
	if _, err := fmt.Fprintf(beating, "HELLO %s\n", c.id); err != nil {
		return err
	}
	lines := bufio.NewScanner(beating)
	if !lines.Scan() {
		return fmt.Errorf("no WELCOME: %w", cmp.Or(lines.Err(), io.EOF))
	}
	var epoch int64
	var kind string
	if _, err := fmt.Sscanf(lines.Text(), "WELCOME %d %s", &epoch, &kind); err != nil {
		return fmt.Errorf("no WELCOME: %s", lines.Text())
	}
	_ = beating.SetDeadline(time.Time{})
	if _, err := heartbeat.Start(beating, heartbeat.Options{Timeout: silence, Message: []byte("PING\n"), Answer: heartbeat.AnswerRead}); err != nil {
		return err
	}
	c.ledger.welcome(c.id, c.at, epoch, kind)
	last := ""
	for lines.Scan() {
		last = lines.Text()
	}
	c.ledger.gone(c.id, epoch)
	if c.away.Load() || last == "BYE kicked" || last == "BYE moved" {
		return final(last)
	}
	return fmt.Errorf("the connection has gone: %q, %w", last, cmp.Or(lines.Err(), io.EOF))
}
