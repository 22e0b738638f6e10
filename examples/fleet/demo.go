package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/heartwheel-go/heartwheel/fleet"
	"github.com/heartwheel-go/heartwheel/internal/redisserver"
)

// demo has everything running.
type demo struct {
	cfg    config
	out    io.Writer
	began  time.Time
	prefix string
	url    string
	redis  *redisserver.Server // nil if it is not the demo's own

	watch   *fleet.Node // a lookup-only node
	web     *web
	town    town
	ledger  *ledger
	clients []*client
	living  sync.WaitGroup // the clients
	leave   context.CancelFunc

	mu    sync.Mutex
	lines []string // of the story
}

func newDemo(cfg config, out io.Writer) *demo {
	// The prefix must differ from others' in their Redis.
	return &demo{cfg: cfg, out: out, began: time.Now(), prefix: "fleet-demo-" + rand.Text()[:8], ledger: newLedger(), leave: func() {}}
}

// say writes a line of the story.
func (d *demo) say(format string, args ...any) {
	line := fmt.Sprintf("%5.1fs  ", time.Since(d.began).Seconds()) + fmt.Sprintf(format, args...)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
	fmt.Fprintln(d.out, line)
}

// open starts the page, Redis, and three gateways.
func (d *demo) open(ctx context.Context) (err error) {
	ln, err := net.Listen("tcp", d.cfg.http)
	if err != nil {
		return err
	}
	defer func() {
		if d.web == nil {
			_ = ln.Close()
		}
	}()
	if d.url = d.cfg.redis; d.url == "" {
		if d.redis, err = redisserver.Start(ctx); errors.Is(err, redisserver.ErrMissing) {
			return fmt.Errorf("%w, or -redis says where one runs", err)
		} else if err != nil {
			return err
		}
		d.url = d.redis.URL
		d.say("redis-server runs: %s", d.url)
	}
	if d.watch, err = fleet.Open(ctx, d.url, d.cfg.presence(d.prefix)); err != nil {
		return err
	}
	d.web = newWeb(ln, d)
	d.say("page at http://%s/", ln.Addr())
	for i := range 3 {
		if err := d.addNode(ctx, i+1); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) addNode(ctx context.Context, number int) error {
	n, err := startNode(ctx, fmt.Sprint("node-", number), d.url, []string{
		"-addr", "127.0.0.1:0", "-prefix", d.prefix, "-timeout", silence.String(),
		"-lease", d.cfg.lease.String(), "-renew", d.cfg.renew.String(), "-redis-timeout", d.cfg.redisTimeout().String(),
	}, d.ledger.event)
	if err != nil {
		return err
	}
	d.town.add(n)
	d.say("%s is up at %s", n.name, n.addr)
	return nil
}

// connect starts all clients, as many for each gateway.
func (d *demo) connect() {
	ctx, leave := context.WithCancel(context.Background())
	d.leave = leave
	nodes := d.town.all()
	for i := range d.cfg.sessions {
		c := &client{id: fmt.Sprintf("client-%04d", i+1), town: &d.town, ledger: d.ledger}
		d.clients = append(d.clients, c)
		d.ledger.enrol(c.id)
		d.living.Go(func() { c.live(ctx, nodes[i%len(nodes)]) })
	}
}

// close ends all that was started.
func (d *demo) close() {
	d.leave()
	d.living.Wait()
	var ends sync.WaitGroup
	for _, n := range d.town.all() {
		ends.Go(func() { _ = n.Finish(stopLimit) })
	}
	ends.Wait()
	if d.web != nil {
		d.web.close()
	}
	if d.watch != nil {
		_ = d.watch.Close()
	}
	if d.redis != nil {
		d.redis.Stop()
	} else if d.watch != nil {
		d.tidy()
	}
}

// tidy removes the demo's keys from somebody else's Redis.
func (d *demo) tidy() {
	options, err := redis.ParseURL(d.url)
	if err != nil {
		return
	}
	client := redis.NewClient(options)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	for keys := client.Scan(ctx, 0, d.prefix+"*", 1000).Iterator(); keys.Next(ctx); {
		_ = client.Del(ctx, keys.Val()).Err()
	}
}
