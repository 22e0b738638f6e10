package main

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/heartwheel-go/heartwheel/fleet"
)

const (
	lease     = 90 * time.Second
	renew     = 30 * time.Second
	pipelined = 512
	tick      = 500 * time.Millisecond // as a fleet's
)

// way is how nodes announce their sessions. start returns once all are announced.
type way struct {
	name  string
	start func(ctx context.Context, o order) (working, error)
}

type list []way

var ways list

func init() {
	ways = list{
		{"fleet: a lease every 30s", startFleet},
		{"SET EX every 30s, 512 in a pipeline", startSet},
		{"ZADD at each heartbeat", startZadd},
	}
}

func (l list) find(name string) func(context.Context, order) (working, error) {
	for _, w := range l {
		if w.name == name {
			return w.start
		}
	}
	return nil
}

// named returns the ways with a text in their names.
func (l list) named(part string) (some list) {
	for _, w := range l {
		if strings.Contains(w.name, part) {
			some = append(some, w)
		}
	}
	return some
}

func (l list) names() (names []string) {
	for _, w := range l {
		names = append(names, w.name)
	}
	return names
}

// ours is a node of a fleet.
type ours struct {
	order
	node    *fleet.Node
	offline atomic.Int64
}

// conn stands for a connection.
type conn struct{ _ byte }

func (*conn) Close() error { return nil }

func startFleet(ctx context.Context, o order) (working, error) {
	w := &ours{order: o}
	var err error
	w.node, err = fleet.Open(ctx, o.URL, fleet.Config{
		Node: o.name(), Lease: lease, Renew: renew,
		OnOffline: func(context.Context, fleet.Offline) error { w.offline.Add(1); return nil },
		Logger:    slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	const callers = 512
	var all errgroup.Group
	for c := range callers {
		all.Go(func() error {
			for i := o.From + c; i < o.To; i += callers {
				if _, err := w.node.Register(ctx, new(conn), o.id(i), nil); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return w, all.Wait()
}

func (w *ours) state() state {
	// Each renewal comes up to 15 % earlier at random.
	return state{Writes: w.node.Stats().Renewals, Wanted: w.per(renew - renew*15/200), Offline: int(w.offline.Load())}
}

func (w *ours) stop() { w.node.Close() }

// others write at a fixed rate.
type others struct {
	order
	client *redis.Client
	period time.Duration
	writes atomic.Uint64
	cancel context.CancelFunc
	work   sync.WaitGroup
}

func newOthers(ctx context.Context, o order, period time.Duration) (*others, context.Context, error) {
	options, err := redis.ParseURL(o.URL)
	if err != nil {
		return nil, nil, err
	}
	options.PoolSize, options.ReadTimeout = 64, time.Minute
	ctx, cancel := context.WithCancel(ctx)
	return &others{order: o, client: redis.NewClient(options), period: period, cancel: cancel}, ctx, nil
}

func (w *others) state() state {
	return state{Writes: w.writes.Load(), Wanted: w.per(w.period)}
}

func (w *others) stop() {
	w.cancel()
	w.work.Wait()
	_ = w.client.Close()
}

// shuffled is the i-th session in another order than they were made in: clients come in any order, and a
// server's memory is slower then.
func (w *others) shuffled(i int) string {
	const stride = 1_000_003 // a prime number
	if w.count()%stride == 0 {
		return w.id(w.From + i)
	}
	return w.id(w.From + int(int64(i)*stride%int64(w.count())))
}

// startSet has a key per session with an expiry. Those due at a time are written together.
func startSet(ctx context.Context, o order) (working, error) {
	w, ctx, err := newOthers(ctx, o, renew)
	if err != nil {
		return nil, err
	}
	write := func(id func(i int) string, from, to int) error {
		for ; from < to; from += pipelined {
			pipe := w.client.Pipeline()
			for i := from; i < min(from+pipelined, to); i++ {
				pipe.Set(ctx, "session:"+id(i), o.name(), lease)
			}
			if _, err := pipe.Exec(ctx); err != nil {
				return err
			}
			w.writes.Add(uint64(min(pipelined, to-from)))
		}
		return nil
	}
	if err := write(func(i int) string { return o.id(o.From + i) }, 0, o.count()); err != nil {
		return nil, err
	}
	w.work.Go(func() {
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		for began, from := time.Now(), 0; ctx.Err() == nil; <-ticker.C {
			due := int(time.Since(began).Seconds() * w.per(w.period))
			for from < due && ctx.Err() == nil { // up to the end of the sessions, and from the first one
				size := min(due-from, o.count()-from%o.count())
				if write(w.shuffled, from%o.count(), from%o.count()+size) != nil {
					break
				}
				from += size
			}
		}
	})
	return w, nil
}

// startZadd writes when a client is heard, as a server without a place of its own for that does: 64 at the
// same time, each by itself.
func startZadd(ctx context.Context, o order) (working, error) {
	w, ctx, err := newOthers(ctx, o, o.Heartbeat)
	if err != nil {
		return nil, err
	}
	for from := o.From; from < o.To; from += pipelined {
		var members []redis.Z
		for i := from; i < min(from+pipelined, o.To); i++ {
			members = append(members, redis.Z{Score: float64(time.Now().UnixMilli()), Member: o.id(i)})
		}
		if err := w.client.ZAdd(ctx, "sessions", members...).Err(); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	var next atomic.Int64
	for range 64 {
		w.work.Go(func() {
			for ctx.Err() == nil {
				i := next.Add(1) - 1
				at := began.Add(time.Duration(float64(i) / w.per(w.period) * float64(time.Second)))
				select {
				case <-ctx.Done():
				case <-time.After(time.Until(at)):
				}
				member := redis.Z{Score: float64(time.Now().UnixMilli()), Member: w.shuffled(int(i) % o.count())}
				if w.client.ZAdd(ctx, "sessions", member).Err() == nil {
					w.writes.Add(1)
				}
			}
		})
	}
	return w, nil
}
