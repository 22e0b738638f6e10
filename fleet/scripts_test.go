package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/redisrun"
	"github.com/heartwheel-go/heartwheel/internal/testserver"
)

// toldClock is a clock that is told what time it is.
const toldClock = `
local function clock() return tonumber(call('GET', string.sub(l, 1, -2) .. 'clock')) end
local function server() return call('GET', string.sub(l, 1, -2) .. 'server') end
`

// pair is the model and Redis. Both must give the same answers.
type pair struct {
	t      *testing.T
	random *rand.Rand
	client *goredis.Client
	model  *model
	older  *model
	dumps  []string // of Redis's keys, as older is
	nodes  []*redisStore
	claims []claim // that were ever given
	taken  []event
	trace  []string
}

func newPair(t *testing.T, seed uint64, nodeLease time.Duration) *pair {
	p := &pair{t: t, random: rand.New(rand.NewPCG(seed, 0)), client: connect(t, testserver.SharedRedis(t))}
	cfg := Config{
		Lease: 90 * time.Second, NodeLease: nodeLease, Renew: 30 * time.Second, Resume: 60 * time.Second,
		MaxExpire: 0.6, Slots: 1, Node: "n",
	}.withDefaults()
	cfg.Prefix = prefix()
	p.model = newModel(cfg)
	told := newScripts(toldClock)
	for i := range 3 {
		cfg.Node = fmt.Sprint("node-", i)
		if i == 2 && seed%4 > 1 { // which was not started anew yet
			cfg.Lease, cfg.Renew, cfg.NodeLease = 40*time.Second, 15*time.Second, 0
		}
		redis, err := redisrun.New(p.client, names)
		require.NoError(t, err)
		s, err := newRedisStore(context.Background(), redis, cfg, incarnation{byte(i + 1)}, told)
		require.NoError(t, err)
		p.nodes = append(p.nodes, s)
	}
	p.tellTime()
	p.remember()
	return p
}

func (p *pair) key(name string) string {
	return strings.TrimSuffix(p.nodes[0].keys[0][0].(string), "l") + name
}

func (p *pair) tellTime() {
	require.NoError(p.t, p.client.MSet(context.Background(), p.key("clock"), p.model.now, p.key("server"), p.model.server).Err())
}

// remember has a replica know what there is now.
func (p *pair) remember() {
	p.older, p.dumps = p.model.clone(), nil
	for _, name := range keyNames {
		dump, err := p.client.Dump(context.Background(), p.key(name)).Result()
		if !errors.Is(err, goredis.Nil) {
			require.NoError(p.t, err)
		}
		p.dumps = append(p.dumps, dump)
	}
}

func (p *pair) failOver(older *model, dumps []string) {
	p.model.failOver(older, p.model.server+"x")
	for i, name := range keyNames {
		require.NoError(p.t, p.client.Del(context.Background(), p.key(name)).Err())
		if dumps != nil && dumps[i] != "" {
			require.NoError(p.t, p.client.Restore(context.Background(), p.key(name), 0, dumps[i]).Err())
		}
	}
	p.tellTime()
}

func (p *pair) id() string { return fmt.Sprint("session-", p.random.IntN(40)) }

func (p *pair) some() (claims []claim) {
	seen := map[string]bool{}
	for range 1 + p.random.IntN(8) {
		// The last ones matter most.
		if n := len(p.claims); n > 0 {
			c := p.claims[max(0, n-1-p.random.IntN(min(n, 60)))]
			if !seen[c.id] {
				claims, seen[c.id] = append(claims, c), true
			}
		}
	}
	return claims
}

// step does something to both and compares.
func (p *pair) step() {
	t, ctx, node := p.t, context.Background(), p.random.IntN(len(p.nodes))
	store := p.nodes[node]
	p.model.rules = rulesOf(store.cfg)
	what := p.random.IntN(100)
	p.trace = append(p.trace, fmt.Sprint(what, " by ", node))
	switch {
	case what < 25:
		var asks []registration
		for range 1 + p.random.IntN(4) {
			ask := registration{id: p.id(), meta: strings.Repeat("m", p.random.IntN(20))}
			if len(p.claims) > 0 && p.random.IntN(4) == 0 {
				old := p.claims[p.random.IntN(len(p.claims))]
				ask.id, ask.before = old.id, &old.token
			}
			asks = append(asks, ask)
		}
		answers, err := store.register(ctx, asks)
		require.NoError(t, err)
		for i, ask := range asks {
			want := p.model.register(store.by, store.cfg.Node, ask)
			require.Equal(t, want, answers[i], "register %d of %d: %s", i, len(asks), ask.id)
			if want.kind != kindRefused {
				p.claims = append(p.claims, claim{ask.id, want.token})
			}
		}
	case what < 45:
		p.judged(p.some(), p.model.extend, func(claims []claim) ([]verdict, error) { return store.extend(ctx, claims) })
	case what < 55:
		reason, resume := "ck"[p.random.IntN(2)], time.Duration(p.random.IntN(2))*time.Minute
		if p.random.IntN(2) == 0 {
			p.judged(p.some(), func(c claim) verdict { return p.model.unregister(c, reason, millis(resume)) },
				func(claims []claim) ([]verdict, error) { return store.unregister(ctx, claims, reason, resume) })
			break
		}
		lost := func(c claim) registration { return registration{id: c.id, meta: "lost " + c.id, before: &c.token} }
		p.judged(p.some(), func(c claim) verdict { return p.model.unregisterLost(store.cfg.Node, lost(c), reason, millis(resume)) },
			func(claims []claim) ([]verdict, error) {
				var all []registration
				for _, c := range claims {
					all = append(all, lost(c))
				}
				return store.unregisterLost(ctx, all, reason, resume)
			})
	case what < 58:
		id := p.id()
		there, err := store.kick(ctx, id)
		require.NoError(t, err)
		require.Equal(t, p.model.kick(id), there)
	case what < 62 && p.model.nodeLease > 0:
		terms, err := store.beat(ctx)
		require.NoError(t, err)
		require.Equal(t, []int64{p.model.extendNode(store.by)}, terms)
	case what < 63 && p.model.nodeLease > 0:
		require.NoError(t, store.goodbye(ctx))
		p.model.goodbye(store.by)
	case what < 65:
		p.alone(store)
	case what < 80:
		p.sweep(store)
	case what < 97:
		p.model.now += p.random.Int64N([]int64{1000, 1_000_000, 20_000_000, 20_000_000, 95_000_000}[p.random.IntN(5)])
		p.tellTime()
	case what < 98:
		p.model.now -= p.random.Int64N(120_000_000)
		p.tellTime()
	case what < 99:
		p.remember()
	case p.random.IntN(5) == 0:
		p.failOver(newModel(store.cfg), nil)
	default:
		p.failOver(p.older, p.dumps)
	}
	p.compare()
}

// alone has one node look often while the others are silent. So leases end without an outage, holds pass, and
// nodes are taken for dead.
func (p *pair) alone(store *redisStore) {
	for range p.random.IntN(40) {
		p.model.now += p.random.Int64N(5_000_000)
		p.tellTime()
		if p.model.nodeLease > 0 {
			terms, err := store.beat(context.Background())
			require.NoError(p.t, err)
			require.Equal(p.t, []int64{p.model.extendNode(store.by)}, terms)
		}
		p.sweep(store)
	}
}

func (p *pair) judged(claims []claim, model func(claim) verdict, redis func([]claim) ([]verdict, error)) {
	verdicts, err := redis(claims)
	require.NoError(p.t, err)
	for i, c := range claims {
		require.Equal(p.t, string(model(c)), string(verdicts[i]), "%s", c.id)
	}
}

func (p *pair) sweep(store *redisStore) {
	var outcomes []told
	for range min(p.random.IntN(4), len(p.taken)) {
		i := p.random.IntN(len(p.taken))
		outcomes = append(outcomes, told{event: p.taken[i], done: p.random.IntN(3) > 0, after: 5 * time.Second})
		if p.random.IntN(4) > 0 { // or it is settled again
			p.taken = slices.Delete(p.taken, i, i+1)
		}
	}
	limit := p.random.IntN(22) - 1
	known := store.marks[0]
	result, err := store.sweep(context.Background(), limit, outcomes)
	require.NoError(p.t, err)
	want := p.model.sweep(store.by, known.say(), limit, outcomes)
	require.Equal(p.t, want, result)
	if p.random.IntN(4) == 0 { // the answer is lost
		store.marks[0] = known
		store.marks[0].missed()
		return
	}
	p.taken = append(p.taken, want.events...)
}

// compare looks at all that the two have kept.
func (p *pair) compare() {
	sessions, waiting, err := p.nodes[0].count(context.Background())
	require.NoError(p.t, err)
	require.EqualValues(p.t, len(p.model.leases), sessions)
	require.EqualValues(p.t, len(p.model.ends), waiting)
	id := p.id()
	answers, err := p.nodes[0].get(context.Background(), []string{id})
	require.NoError(p.t, err)
	owner, there := p.model.owners[id]
	require.Equal(p.t, found{p.model.ms(), there, owner, p.model.records[id], p.model.leases[id]}, answers[0])
	p.compareNodes()
}

func (p *pair) compareNodes() {
	together := p.client.Pipeline()
	ends := together.ZRangeWithScores(ctx, p.key("g"), 0, -1)
	taken := together.ZRangeWithScores(ctx, p.key("a"), 0, -1)
	kept := together.HGetAll(ctx, p.key("t"))
	dead := together.HLen(ctx, p.key("d"))
	_, err := together.Exec(ctx)
	require.NoError(p.t, err)
	nodes := map[incarnation]int64{}
	for _, end := range ends.Val() {
		nodes[incarnation([]byte(end.Member.(string)))] = int64(end.Score)
	}
	require.Equal(p.t, p.model.nodes, nodes)
	marks := map[incarnation]int64{}
	for _, taken := range taken.Val() {
		marks[incarnation([]byte(taken.Member.(string)))] = int64(taken.Score)
	}
	require.Equal(p.t, p.model.marks, marks)
	terms := map[incarnation]modelTerm{}
	for by, kept := range kept.Val() {
		var term modelTerm
		_, err = fmt.Sscan(kept, &term.term, &term.lease)
		require.NoError(p.t, err)
		terms[incarnation([]byte(by))] = term
	}
	require.Equal(p.t, p.model.terms, terms)
	require.EqualValues(p.t, len(p.model.dead), dead.Val())
}

func TestTheScriptsDoWhatTheModelDoes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(14) {
		nodeLease := time.Duration(seed%2) * 45 * time.Second
		t.Run(fmt.Sprintf("seed=%d/nodeLease=%v", seed, nodeLease), func(t *testing.T) {
			p := newPair(t, seed, nodeLease)
			defer func() {
				if t.Failed() {
					t.Log(p.trace[max(0, len(p.trace)-20):])
				}
			}()
			for range 500 {
				p.step()
			}
		})
	}
}
