package timeout

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
)

// circuits keep dead targets from holding up the others: a call to a target that has failed
// too often in a row is not made for a while. How many calls one can have under way at the same
// time is the worker's.
type circuits struct {
	failures int
	wait     time.Duration

	mu  sync.Mutex
	all map[string]*circuit
}

// circuit is what fails together, such as a host.
type circuit struct {
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]

	mu       sync.Mutex
	calls    int       // that are under way
	answered time.Time // when the last one succeeded, or the first one began
}

const (
	// circuitHangs is for how long no call must have succeeded for a target to hang.
	circuitHangs = time.Second

	// circuitsKept is how many targets are remembered before those without a call are
	// forgotten, and with them how often they failed.
	circuitsKept = 10_000
)

// errNoCall stands for a call that was broken off by this node, or can't be made at all. It says
// nothing of the target.
var errNoCall = errors.New("timeout: no call")

func (cs *circuits) init(cfg Config) {
	cs.failures, cs.wait = cfg.Circuit, cfg.CircuitWait
	cs.all = make(map[string]*circuit)
}

func (cs *circuits) of(name string) *circuit {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c := cs.all[name]; c != nil {
		return c
	}
	if len(cs.all) >= circuitsKept {
		cs.shed()
	}
	c := &circuit{answered: time.Now()}
	if cs.failures > 0 {
		c.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
			Name:        name,
			MaxRequests: 1,
			Timeout:     cs.wait,
			IsExcluded:  func(err error) bool { return errors.Is(err, errNoCall) },
			ReadyToTrip: func(counts gobreaker.Counts) bool {
				return counts.ConsecutiveFailures >= uint32(cs.failures)
			},
		})
	}
	cs.all[name] = c
	return c
}

// shed forgets targets that have no call under way. cs.mu must be held.
func (cs *circuits) shed() {
	for name, c := range cs.all {
		c.mu.Lock()
		idle := c.calls == 0
		c.mu.Unlock()
		if idle {
			delete(cs.all, name)
		}
	}
}

// OpenCircuits returns the targets that fail, and to which this node makes no call now, by
// name.
func (c *Center) OpenCircuits() []string { return c.circuits.open() }

func (cs *circuits) open() []string {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	var names []string
	for name, c := range cs.all {
		if c.breaker != nil && c.breaker.State() == gobreaker.StateOpen {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// enter asks whether a call can be made now. Where it can, leave must be called with how it
// went.
func (c *circuit) enter() (leave func(error), ok bool) {
	done := func(error) {}
	if c.breaker != nil {
		var err error
		if done, err = c.breaker.Allow(); err != nil {
			return nil, false
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == 0 {
		c.answered = time.Now()
	}
	c.calls++
	return func(failure error) {
		c.mu.Lock()
		c.calls--
		if failure == nil {
			c.answered = time.Now()
		}
		c.mu.Unlock()
		done(failure)
	}, true
}

// hangs reports whether calls are under way of which none has succeeded for a while.
func (c *circuit) hangs(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls > 0 && now.Sub(c.answered) > circuitHangs
}
