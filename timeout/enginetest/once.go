package enginetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// firings records for consumers the leases of each version.
type firings struct {
	mu    sync.Mutex
	fired map[string][]int64 // versions by id, in any order
	held  map[firing]bool    // whether the outcome counted
}

type firing struct {
	id      string
	version int64
}

// testExactlyOnce has several goroutines set, move and remove while others consume. The answers
// tell which versions were to fire, and each of those must fire once.
func testExactlyOnce(r *rig) {
	const setters, each, consumers = 4, 150, 3
	r.make(engine.Topic{Slots: 4})
	seen := &firings{fired: map[string][]int64{}, held: map[firing]bool{}}
	stop := make(chan struct{})
	var consuming, setting sync.WaitGroup
	for i := range consumers {
		eng := []engine.Engine{r.engine, r.second}[i%2]
		consuming.Go(func() { r.consume(eng, fmt.Sprint("consumer", i), seen, stop) })
	}
	want := make([]map[string]expectation, setters)
	for i := range setters {
		eng := []engine.Engine{r.engine, r.second}[i%2]
		setting.Go(func() { want[i] = r.plans(eng, i, each) })
	}
	setting.Wait()
	ok := r.settled()
	close(stop)
	consuming.Wait()
	require.True(r.t, ok, "tasks are left over")
	for _, some := range want {
		for id, e := range some {
			require.ElementsMatch(r.t, e.fires, seen.fired[id], "versions of %s that fired, after %s", id, e.how)
			for version, held := range e.held {
				require.Equal(r.t, held, seen.held[firing{id, version}], "outcome of version %d of %s, after %s", version, id, e.how)
			}
		}
	}
}

// expectation is the outcome for an id according to the answers.
type expectation struct {
	how   string
	fires []int64
	held  map[int64]bool
}

// settled waits until no task is left.
func (r *rig) settled() bool {
	none := func(state engine.State) bool {
		page, err := r.engine.List(r.ctx, engine.Query{Topic: r.topic, State: state, Limit: 1})
		return err == nil && len(page.Tasks) == 0
	}
	for start := time.Now(); time.Since(start) < patient; time.Sleep(20 * time.Millisecond) {
		if none(engine.Pending) && none(engine.Running) {
			return true
		}
	}
	return false
}

// consume settles its leases with the call for further ones.
func (r *rig) consume(e engine.Engine, node string, seen *firings, stop <-chan struct{}) {
	var settle []engine.Outcome
	var firings []firing
	for {
		batch, err := e.Lease(r.ctx, r.ask(engine.Ask{Node: node, Max: 1 + rand.IntN(20), Settle: settle}))
		if err != nil {
			r.t.Errorf("Lease: %v", err)
			return
		}
		seen.mu.Lock()
		for i, held := range batch.Settled {
			seen.held[firings[i]] = held
		}
		settle, firings = nil, nil
		for _, leased := range batch.Leased {
			seen.fired[leased.ID] = append(seen.fired[leased.ID], leased.Version)
			settle = append(settle, engine.Outcome{Token: leased.Token, As: engine.Done})
			firings = append(firings, firing{leased.ID, leased.Version})
		}
		seen.mu.Unlock()
		if len(settle) > 0 {
			continue
		}
		select {
		case <-stop:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// plans does one of four things with each of its ids, some ids at a time.
func (r *rig) plans(e engine.Engine, setter, each int) map[string]expectation {
	const batch = 10
	want := map[string]expectation{}
	for first := 0; first < each; first += batch {
		plan := rand.IntN(4)
		var tasks []engine.Task
		var keys []engine.Key
		var moves []engine.Move
		for i := range batch {
			id := fmt.Sprintf("%d/%d", setter, first+i)
			due := past
			if plan == 1 {
				due = newDue
			}
			tasks = append(tasks, r.task(id, due))
			keys = append(keys, r.key(id))
			moves = append(moves, engine.Move{Key: r.key(id), Due: past})
		}
		set, err := e.Set(r.ctx, tasks)
		var then []engine.Answer
		switch {
		case err != nil:
		case plan == 1:
			then, err = e.Move(r.ctx, moves)
		case plan == 2:
			then, err = e.Remove(r.ctx, removals(keys))
		case plan == 3:
			then, err = e.Set(r.ctx, tasks)
		}
		if err != nil || len(set) != batch || (plan > 0 && len(then) != batch) {
			r.t.Errorf("plan %d: %v", plan, err)
			return want
		}
		for i, key := range keys {
			want[key.ID] = expected(plan, set[i], append(then, make([]engine.Answer, batch)...)[i])
		}
	}
	return want
}

func expected(plan int, set, then engine.Answer) expectation {
	e := expectation{how: fmt.Sprintf("plan %d, then %v", plan, then), held: map[int64]bool{}}
	if set.Was != engine.None {
		e.how = fmt.Sprintf("a set that found %v", set.Was)
		return e
	}
	fires := func(version int64, held bool) {
		e.fires = append(e.fires, version)
		e.held[version] = held
	}
	switch plan {
	case 0:
		fires(set.Version, true)
	case 1: // it was far in the future
		fires(then.Version, then.Was == engine.Pending)
	default:
		switch then.Was {
		case engine.Pending: // it had not fired, and never will
		case engine.Running:
			fires(set.Version, false)
		case engine.None:
			fires(set.Version, true)
		}
		if plan == 3 {
			fires(then.Version, true)
		}
	}
	return e
}

// together runs f several times at once.
func together(count int, f func(i int)) {
	var running sync.WaitGroup
	for i := range count {
		running.Go(func() { f(i) })
	}
	running.Wait()
}
