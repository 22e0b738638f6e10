package timeout

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
)

// circuits keep dead targets from holding up the others: after too many failures in a row a
// target gets no call for a while. The worker bounds the simultaneous calls of a target.
type circuits struct {
	failures int
	wait     time.Duration

	mu  sync.Mutex
	all map[string]*circuit
}

// circuit is a unit that fails as a whole, such as a host.
type circuit struct {
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]

	mu       sync.Mutex
	calls    int       // under way
	answered time.Time // when the last one succeeded, or the first one began
}

const (
	// circuitHangs is how long a target must go without a successful call to count as hanging.
	circuitHangs = time.Second

	// circuitsKept is how many targets are remembered. Beyond it those without a call are
	// forgotten, with their failures.
	circuitsKept = 10_000
)

// errNoCall stands for a call broken off by this node, or an impossible one. It says nothing of the
// target.
var errNoCall = errors.New("timeout: no call")

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
				return int64(counts.ConsecutiveFailures) >= int64(cs.failures)
			},
		})
	}
	cs.all[name] = c
	return c
}

// shed forgets targets without a call under way. cs.mu must be held.
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

// OpenCircuits returns, by name, the failing targets that get no calls from this node now.
func (c *Center) OpenCircuits() []string {
	c.circuits.mu.Lock()
	defer c.circuits.mu.Unlock()
	var names []string
	for name, one := range c.circuits.all {
		if one.breaker != nil && one.breaker.State() == gobreaker.StateOpen {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// visit is a call under way.
type visit struct {
	circuit *circuit
	once    sync.Once
	done    func(error) // of the breaker
}

// enter begins a call, which must end with leave. It returns nil if there may be none now.
func (c *circuit) enter() *visit {
	done := func(error) {}
	if c.breaker != nil {
		var err error
		if done, err = c.breaker.Allow(); err != nil {
			return nil
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == 0 {
		c.answered = time.Now()
	}
	c.calls++
	return &visit{circuit: c, done: done}
}

// leave ends a call with its result.
func (v *visit) leave(failure error) {
	v.circuit.mu.Lock()
	v.circuit.calls--
	if failure == nil {
		v.circuit.answered = time.Now()
	}
	v.circuit.mu.Unlock()
	v.judge(failure)
}

// judge tells the breaker of a call, also before its end: while it tries the target with one call, there is no
// other. Only the first verdict counts.
func (v *visit) judge(failure error) { v.once.Do(func() { v.done(failure) }) }

// hangs reports whether calls are under way and none has succeeded for a while.
func (c *circuit) hangs(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls > 0 && now.Sub(c.answered) > circuitHangs
}
