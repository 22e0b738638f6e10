package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/heartwheel-go/heartwheel/internal/redisrun"
)

const (
	// batchSize is the largest number of sessions in one run of a script. batchBytes limits the
	// bytes of their ids and metadata, but a run has at least one session.
	batchSize  = 512
	batchBytes = 1 << 20

	// pingsLost is the number of unanswered pings of a dead subscription.
	pingsLost = 3

	// heldLeast is the least number of due sessions to hold a slot back for: a share of a few
	// sessions says nothing.
	heldLeast = 16
)

// redisStore keeps sessions in slots. All keys of a slot have one hash tag. A session is in the slot
// of its id, like a task. So each operation on a session is one step on one server.
type redisStore struct {
	redis   *redisrun.Client
	scripts *scripts
	cfg     Config
	by      incarnation
	keys    [][]any // by slot
	layout  string  // key of the number of slots
	channel string  // with a node's name: the channel of its news

	marks []mark // by slot; only for the sweeping goroutine
	rules string // the config's times, for the scripts

	subscribed *goredis.PubSub // subscription for the next listen
}

var names = redisrun.Names{Package: "fleet", Loss: "sessions", Argument: ErrArgument, Closed: ErrClosed, Full: ErrFull}

// newRedisStore takes the fleet's number of slots, or sets it. The store closes redis.
func newRedisStore(ctx context.Context, redis *redisrun.Client, cfg Config, by incarnation, use *scripts) (*redisStore, error) {
	s := &redisStore{redis: redis, scripts: use, cfg: cfg, by: by, layout: cfg.Prefix + ":{fleet}:c", channel: cfg.Prefix + ":node:", rules: cfg.rules()}
	if single, ok := s.redis.Client().(*goredis.Client); ok && single.Options().DB != 0 {
		// A server has one set of channels for all of its databases.
		s.channel = fmt.Sprintf("%s:node@%d:", cfg.Prefix, single.Options().DB)
	}
	slots, err := s.settle(ctx, cfg.Slots)
	if err != nil {
		_ = s.redis.Close()
		return nil, err
	}
	for slot := range slots {
		tag := cfg.Prefix + ":{fleet:" + strconv.Itoa(slots) + ":" + strconv.Itoa(slot) + "}:"
		keys := make([]any, len(keyNames))
		for i, name := range keyNames {
			keys[i] = tag + name
		}
		s.keys = append(s.keys, keys)
	}
	s.marks = make([]mark, slots)
	return s, nil
}

// settle returns the number of slots. The first node decides it.
func (s *redisStore) settle(ctx context.Context, slots int) (int, error) {
	client, err := s.redis.ForKey(ctx, s.layout)
	if err != nil {
		return 0, err
	}
	there, err := client.HGet(ctx, s.layout, "slots").Int()
	if errors.Is(err, goredis.Nil) {
		if err := client.HSetNX(ctx, s.layout, "slots", cmp.Or(slots, defaultSlots)).Err(); err != nil {
			return 0, s.redis.Wrap(fmt.Errorf("fleet: saying how many slots there are: %w", err))
		}
		there, err = client.HGet(ctx, s.layout, "slots").Int()
	}
	if err != nil {
		return 0, s.redis.Wrap(fmt.Errorf("fleet: asking how many slots there are: %w", err))
	}
	if slots != 0 && slots != there {
		return 0, fmt.Errorf("%w: Slots %d, must be %d: with Prefix %q there is a fleet that has so many", ErrArgument, slots, there, s.cfg.Prefix)
	}
	return there, checkSlots(there)
}

// confirm sets the number of slots again if the server has lost it, see store.
func (s *redisStore) confirm(ctx context.Context) error {
	_, err := s.settle(ctx, s.slots())
	return err
}

// verb is an operation on sessions in batches.
type verb struct {
	script *redisrun.Script
	head   []any                                             // first arguments of each run
	count  int                                               // number of sessions
	id     func(i int) string                                // id of session i
	add    func(args []any, i int) []any                     // appends the arguments of session i
	size   func(i int) int                                   // their bytes; nil if they are few
	take   func(items []int, answer []any) (malformed error) // reads the answer for some sessions
}

// do deals sessions out to their slots, and runs the script there. If some sessions get no answer,
// do does not call take for them, and returns an error.
func (s *redisStore) do(ctx context.Context, v verb) error {
	type batch struct {
		redisrun.Call
		items []int
	}
	open := make([]*batch, s.slots())
	var batches []*batch
	for i := range v.count {
		slot, size := slotAmong(v.id(i), s.slots()), 0
		if v.size != nil {
			size = v.size(i)
		}
		b := open[slot]
		if b == nil || len(b.items) == batchSize || b.Size+size > batchBytes {
			b = &batch{Call: redisrun.Call{Script: v.script, Keys: v.script.Keys(s.keys[slot]), Args: append([]any(nil), v.head...)}}
			open[slot], batches = b, append(batches, b)
		}
		b.Args, b.items = v.add(b.Args, i), append(b.items, i)
		b.Size += size
		b.Weight++
	}
	calls := make([]*redisrun.Call, len(batches))
	for i, b := range batches {
		calls[i] = &b.Call
	}
	err := s.redis.Run(ctx, calls)
	for _, b := range batches {
		if b.Err == nil && b.Answer != nil {
			err = errors.Join(err, v.take(b.items, b.Answer))
		}
	}
	return err
}

func (s *redisStore) register(ctx context.Context, asks []registration) ([]registered, error) {
	answers := make([]registered, len(asks))
	return answers, s.do(ctx, verb{
		script: s.scripts.register,
		head:   []any{s.rules, string(s.by[:]), s.cfg.Node, s.channel},
		count:  len(asks),
		id:     func(i int) string { return asks[i].id },
		size:   func(i int) int { return len(asks[i].meta) + len(asks[i].id) },
		add: func(args []any, i int) []any {
			before := ""
			if asks[i].before != nil {
				before = string(asks[i].before[:])
			}
			return append(args, asks[i].id, before, asks[i].meta)
		},
		take: func(items []int, answer []any) (err error) {
			for j, i := range items {
				if answers[i], err = s.readRegistered(list(at(answer, j))); err != nil {
					return err
				}
				answers[i].term = integer(at(answer, len(items)))
			}
			return nil
		},
	})
}

func (s *redisStore) readRegistered(answer []any) (r registered, err error) {
	kind, epoch := text(at(answer, 0)), integer(at(answer, 1))
	if len(kind) != 1 {
		return registered{}, fmt.Errorf("fleet: register has answered with %d parts", len(answer))
	}
	r = registered{kind: kind[0], token: newToken(epoch, s.by)}
	if old := text(at(answer, 2)); old != "" {
		if r.prev, err = readValue(old); err != nil {
			return registered{}, err
		}
	}
	if before := text(at(answer, 3)); before != "" {
		r.whose, err = readRecord(before)
	}
	return r, err
}

func (s *redisStore) extend(ctx context.Context, claims []claim) ([]verdict, error) {
	return s.judge(ctx, s.scripts.extend, claims, millis(s.cfg.Lease))
}

func (s *redisStore) unregister(ctx context.Context, claims []claim, reason byte, resume time.Duration) ([]verdict, error) {
	return s.judge(ctx, s.scripts.unregister, claims, millis(resume), string(reason))
}

func (s *redisStore) unregisterLost(ctx context.Context, lost []registration, reason byte, resume time.Duration) ([]verdict, error) {
	verdicts := make([]verdict, len(lost))
	return verdicts, s.do(ctx, verb{
		script: s.scripts.unregisterLost,
		head:   []any{s.rules, millis(resume), string(reason), s.cfg.Node},
		count:  len(lost),
		id:     func(i int) string { return lost[i].id },
		size:   func(i int) int { return len(lost[i].meta) + len(lost[i].id) },
		add: func(args []any, i int) []any {
			return append(args, string(lost[i].before[:])+lost[i].id, lost[i].meta)
		},
		take: readVerdicts(verdicts),
	})
}

// judge asks about claims. Each is a single argument, because arguments take most of Redis's time.
func (s *redisStore) judge(ctx context.Context, script *redisrun.Script, claims []claim, head ...any) ([]verdict, error) {
	verdicts := make([]verdict, len(claims))
	return verdicts, s.do(ctx, verb{
		script: script,
		head:   head,
		count:  len(claims),
		id:     func(i int) string { return claims[i].id },
		add:    func(args []any, i int) []any { return append(args, string(claims[i].token[:])+claims[i].id) },
		take:   readVerdicts(verdicts),
	})
}

// readVerdicts reads a byte for each session. No byte at all means that all are held.
func readVerdicts(verdicts []verdict) func(items []int, answer []any) error {
	return func(items []int, answer []any) error {
		said := text(at(answer, 0))
		if said == "" {
			said = strings.Repeat(string(held), len(items))
		}
		if len(said) != len(items) {
			return fmt.Errorf("fleet: %d answers for %d sessions", len(said), len(items))
		}
		for j, i := range items {
			verdicts[i] = verdict(said[j])
		}
		return nil
	}
}

func (s *redisStore) get(ctx context.Context, ids []string) ([]found, error) {
	answers := make([]found, len(ids))
	return answers, s.do(ctx, verb{
		script: s.scripts.get,
		count:  len(ids),
		id:     func(i int) string { return ids[i] },
		add:    func(args []any, i int) []any { return append(args, ids[i]) },
		take: func(items []int, answer []any) (err error) {
			owners, records, times := list(at(answer, 1)), list(at(answer, 2)), list(at(answer, 3))
			for j, i := range items {
				f := found{now: integer(at(answer, 0))}
				if owner := text(at(owners, j)); owner != "" {
					f.there = true
					if f.value, err = readValue(owner); err != nil {
						return err
					}
				}
				if kept := text(at(records, j)); kept != "" {
					if f.record, err = readRecord(kept); err != nil {
						return err
					}
				}
				f.until, _ = strconv.ParseInt(text(at(times, j)), 10, 64)
				answers[i] = f
			}
			return nil
		},
	})
}

func (s *redisStore) kick(ctx context.Context, id string) (there bool, err error) {
	return there, s.do(ctx, verb{
		script: s.scripts.kick,
		head:   []any{s.channel},
		count:  1,
		id:     func(int) string { return id },
		add:    func(args []any, _ int) []any { return append(args, id) },
		take: func(_ []int, answer []any) error {
			there = text(at(answer, 0)) != ""
			return nil
		},
	})
}

func (s *redisStore) slots() int { return len(s.keys) }

func (s *redisStore) beat(ctx context.Context) ([]int64, error) {
	terms := make([]int64, s.slots())
	calls, err := s.everywhere(ctx, s.scripts.beat, s.rules, string(s.by[:]))
	for i, c := range calls {
		if c.Err == nil {
			terms[i] = integer(at(c.Answer, 0))
		}
	}
	return terms, err
}

func (s *redisStore) goodbye(ctx context.Context) error {
	_, err := s.everywhere(ctx, s.scripts.goodbye, string(s.by[:]))
	return err
}

// everywhere runs a script in all slots.
func (s *redisStore) everywhere(ctx context.Context, script *redisrun.Script, args ...any) ([]*redisrun.Call, error) {
	calls := make([]*redisrun.Call, s.slots())
	for i, keys := range s.keys {
		calls[i] = &redisrun.Call{Script: script, Keys: script.Keys(keys), Args: args, Weight: 1}
	}
	return calls, s.redis.Run(ctx, calls)
}

func (s *redisStore) close() error {
	if s.subscribed != nil {
		_ = s.subscribed.Close()
	}
	return s.redis.Close()
}

// subscribe begins the subscription to the node's channel. listen takes it.
func (s *redisStore) subscribe(ctx context.Context) error {
	channel := s.channel + s.cfg.Node
	sub := s.redis.Client().Subscribe(ctx, channel)
	if _, err := sub.ReceiveTimeout(ctx, s.cfg.Timeout); err != nil {
		_ = sub.Close()
		return s.redis.Wrap(fmt.Errorf("fleet: subscribing to channel %q: %w", channel, err))
	}
	s.subscribed = sub
	return nil
}

// listen calls hear with the node's news. After a new subscription it says newsAgain, because
// messages in between are lost. If a server is gone without a word, only its silence tells.
func (s *redisStore) listen(ctx context.Context, hear func(news)) error {
	if s.redis.Closed() {
		return ErrClosed
	}
	if s.subscribed == nil {
		if err := s.subscribe(ctx); err != nil {
			return err
		}
		hear(news{kind: newsAgain})
	}
	sub := s.subscribed
	s.subscribed = nil
	pinging, stop := context.WithCancel(ctx)
	var pings sync.WaitGroup
	pings.Go(func() { s.ping(pinging, sub) })
	defer pings.Wait()
	defer stop()
	for {
		got, err := sub.ReceiveTimeout(ctx, pingsLost*s.cfg.pings())
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return s.redis.Wrap(fmt.Errorf("fleet: listening: %w", err))
		}
		switch got := got.(type) {
		case *goredis.Subscription:
			hear(news{kind: newsAgain})
		case *goredis.Message:
			if size := len(token{}); len(got.Payload) > size {
				hear(news{verdict(got.Payload[0]), claim{got.Payload[1+size:], token([]byte(got.Payload[1 : 1+size]))}})
			}
		}
	}
}

// ping has the server answer now and then. When ctx ends, ping closes the subscription: only that
// ends a wait for news.
func (s *redisStore) ping(ctx context.Context, sub *goredis.PubSub) {
	defer sub.Close()
	ticker := time.NewTicker(s.cfg.pings())
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_ = sub.Ping(ctx) // if it fails, the wait for news fails, too
		}
	}
}

// millis returns a duration in milliseconds, rounded up.
func millis(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d > time.Duration(ms)*time.Millisecond {
		ms++
	}
	return ms
}

// at, list, text and integer read answers. A missing part is a zero value and no panic.
func at(answers []any, i int) any {
	if i >= len(answers) {
		return nil
	}
	return answers[i]
}

func list(answer any) []any { l, _ := answer.([]any); return l }

func text(answer any) string {
	switch answer := answer.(type) {
	case string:
		return answer
	case float64:
		return strconv.FormatFloat(answer, 'f', -1, 64)
	}
	return ""
}

func integer(answer any) int64 { n, _ := answer.(int64); return n }
