package enginetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/internal/linear"
)

// call is a call for one key; effect is its answer.
type call struct {
	verb  string // set, absent, keep, move, remove, drop, replay, get, leased, done, again, newrun, dead, extend
	key   string
	due   bool  // set, move and newrun: at once, or far away
	lease int64 // of a token
	floor int64 // the highest version answered before the call began
}

// gives reports whether the task has a new version after the call.
func (c call) gives(e effect) bool {
	switch c.verb {
	case "set", "keep":
		return true
	case "absent":
		return e.was == engine.None
	case "move":
		return e.was == engine.Pending
	case "replay":
		return e.was == engine.Dead
	}
	return false
}

type effect struct {
	was      engine.State
	version  int64
	attempts int
	lease    int64
	ok       bool
}

// keyState is the state of one key, by the contract.
type keyState struct {
	state    engine.State
	due      bool
	version  int64 // of the present task, or of the last one
	attempts int
	lease    int64
}

// step tells whether an answer is right, and returns the next state.
func (l keyState) step(c call, e effect) (bool, keyState) {
	switch c.verb {
	case "leased":
		if l.state != engine.Pending || !l.due || e.version != l.version || e.attempts != l.attempts+1 || e.lease == l.lease {
			return false, l
		}
		l.state, l.attempts, l.lease = engine.Running, e.attempts, e.lease
		return true, l
	case "done", "again", "newrun", "dead", "extend":
		return l.settled(c, e)
	case "get":
		if e.was != l.state {
			return false, l
		}
		return l.state == engine.None || (e.version == l.version && e.attempts == l.attempts), l
	}
	if e.was != l.state {
		return false, l
	}
	return l.changed(c, e)
}

func (l keyState) settled(c call, e effect) (bool, keyState) {
	held := l.state == engine.Running && l.lease == c.lease
	if e.ok != held || !held {
		return e.ok == held, l
	}
	switch c.verb {
	case "done":
		l.state = engine.None
	case "again":
		l.state = engine.Pending
	case "newrun":
		l.state, l.due, l.attempts = engine.Pending, c.due, 0
	case "dead":
		l.state = engine.Dead
	}
	return true, l
}

func (l keyState) changed(c call, e effect) (bool, keyState) {
	there := l.state != engine.None
	switch {
	case c.gives(e):
		if e.version <= c.floor || there && e.version <= l.version {
			return false, l
		}
		if c.verb != "move" {
			l.attempts = 0
		}
		switch {
		case c.verb != "keep" || l.state != engine.Pending && l.state != engine.Running:
			l.due = c.due || c.verb == "replay"
		case l.state == engine.Running:
			l.due = true
		}
		l.state, l.version = engine.Pending, e.version
		return true, l
	case c.verb == "remove" && there, c.verb == "drop" && l.state == engine.Dead:
		l.state = engine.None
		return e.version == 0, l
	}
	return !there || e.version == l.version, l // nothing was changed
}

// history has the calls of several clients, by key.
type history struct {
	ticks atomic.Int64 // number of begins and ends: each has a time of its own, in order
	mu    sync.Mutex
	calls map[string][]linear.Call[call, effect]
}

func (h *history) add(begin int64, input call, answer effect) {
	end := h.ticks.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls[input.key] = append(h.calls[input.key], linear.Call[call, effect]{Begin: begin, End: end, Input: input, Answer: answer})
}

// testLinearizable has several clients work on a few keys. Some order of all calls, each between
// its begin and its end, must explain all answers.
func testLinearizable(r *rig) {
	const (
		rounds, clients, calls = 4, 4, 60
		searched               = 1_000_000 // steps of a search
	)
	end := time.Now().Add(enough)
	for done := 0; done < rounds && time.Now().Before(end); done++ {
		round := *r
		round.topic = r.topic + unique("")
		round.make(engine.Topic{Slots: 2})
		h := &history{calls: map[string][]linear.Call[call, effect]{}}
		together(clients, func(i int) {
			e := []engine.Engine{r.engine, r.second}[i%2]
			c := &client{r: &round, engine: e, h: h, number: i}
			for range calls {
				if err := c.step(); err != nil {
					r.t.Errorf("client %d: %v", i, err)
					return
				}
			}
		})
		for key, calls := range h.calls {
			require.Zero(r.t, versions(calls), "a version of key %s that was given twice", key)
			result := linear.Check(keyState{}, keyState.step, calls, searched)
			if result == linear.Explained {
				continue
			}
			for _, c := range calls {
				r.t.Logf("[%d, %d] %+v -> %+v", c.Begin, c.End, c.Input, c.Answer)
			}
			require.NotEqual(r.t, linear.Unknown, result, "key %s: no order of the calls was found in %d steps", key, searched)
			require.Fail(r.t, "no order of the calls explains the answers", "key %s", key)
		}
		_ = r.engine.DropTopic(r.ctx, round.topic)
	}
}

// versions fills in the floor of each call. It returns a version given twice, or zero.
func versions(calls []linear.Call[call, effect]) (twice int64) {
	given := map[int64]bool{}
	for i := range calls {
		c := &calls[i]
		if c.Input.gives(c.Answer) {
			if given[c.Answer.version] {
				twice = c.Answer.version
			}
			given[c.Answer.version] = true
		}
		for _, before := range calls {
			if before.End < c.Begin {
				c.Input.floor = max(c.Input.floor, before.Answer.version)
			}
		}
	}
	return twice
}

// client makes random calls.
type client struct {
	r      *rig
	engine engine.Engine
	h      *history
	number int
	tokens []engine.Token
}

func (c *client) step() error {
	id := fmt.Sprint(rand.IntN(3))
	key, due := c.r.key(id), rand.IntN(3) > 0
	at := newDue
	if due {
		at = past
	}
	var answers []engine.Answer
	var err error
	in := call{key: id, due: due}
	start := c.h.ticks.Add(1)
	switch dice := rand.IntN(17); dice {
	case 0, 1, 2, 3, 16:
		in.verb = "set"
		task := c.r.task(id, at)
		if task.IfAbsent = dice < 2; task.IfAbsent {
			in.verb = "absent"
		}
		if task.KeepDue = dice == 16; task.KeepDue {
			in.verb = "keep"
		}
		answers, err = c.engine.Set(c.r.ctx, []engine.Task{task})
	case 4, 5:
		in.verb = "move"
		answers, err = c.engine.Move(c.r.ctx, []engine.Move{{Key: key, Due: at}})
	case 6:
		in.verb = "remove"
		removal := engine.Removal{Key: key}
		if rand.IntN(2) == 0 {
			in.verb, removal.State = "drop", engine.Dead
		}
		answers, err = c.engine.Remove(c.r.ctx, []engine.Removal{removal})
	case 7:
		in.verb = "replay"
		answers, err = c.engine.Replay(c.r.ctx, []engine.Key{key})
	case 8, 9:
		return c.get(start, id)
	case 10:
		return c.extend(start)
	default:
		return c.leaseBatch(start)
	}
	if err != nil {
		return err
	}
	c.h.add(start, in, effect{was: answers[0].Was, version: answers[0].Version})
	return answers[0].Err
}

func (c *client) get(start int64, id string) error {
	tasks, err := c.engine.Get(c.r.ctx, c.r.keys(id))
	if err != nil {
		return err
	}
	c.h.add(start, call{verb: "get", key: id}, effect{was: tasks[0].State, version: tasks[0].Version, attempts: tasks[0].Attempts})
	return nil
}

// token returns one of the last few tokens of this client.
func (c *client) token() (engine.Token, bool) {
	if len(c.tokens) == 0 {
		return engine.Token{}, false
	}
	return c.tokens[max(0, len(c.tokens)-1-rand.IntN(3))], true
}

func (c *client) extend(start int64) error {
	token, ok := c.token()
	if !ok {
		return nil
	}
	held, err := c.engine.Extend(c.r.ctx, []engine.Token{token}, long)
	if err != nil {
		return err
	}
	c.h.add(start, call{verb: "extend", key: token.ID, lease: token.Lease}, effect{ok: held[0]})
	return nil
}

// leaseBatch settles one lease and asks for two.
func (c *client) leaseBatch(start int64) error {
	ask := c.r.ask(engine.Ask{Node: fmt.Sprint(c.number), Max: rand.IntN(3)})
	verb := ""
	if token, ok := c.token(); ok && rand.IntN(4) > 0 {
		outcome := engine.Outcome{Token: token}
		switch rand.IntN(5) {
		case 0:
			verb, outcome.As, outcome.Error = "dead", engine.Dead, "broken"
		case 1:
			verb, outcome.As, outcome.Error = "again", engine.Pending, "broken"
		case 2:
			verb, outcome.As, outcome.NewRun = "newrun", engine.Pending, true
			if rand.IntN(2) == 0 {
				outcome.After = long
			}
		default:
			verb, outcome.As = "done", engine.Done
		}
		ask.Settle = []engine.Outcome{outcome}
	}
	batch, err := c.engine.Lease(c.r.ctx, ask)
	if err != nil {
		return err
	}
	if verb != "" {
		token := ask.Settle[0].Token
		c.h.add(start, call{verb: verb, key: token.ID, lease: token.Lease, due: ask.Settle[0].After == 0}, effect{ok: batch.Settled[0]})
	}
	for _, leased := range batch.Leased {
		c.tokens = append(c.tokens, leased.Token)
		c.h.add(start, call{verb: "leased", key: leased.ID}, effect{version: leased.Version, attempts: leased.Attempts, lease: leased.Token.Lease})
	}
	return nil
}
