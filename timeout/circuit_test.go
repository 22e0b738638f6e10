package timeout

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnOpenCircuitIsRememberedBesideVeryManyOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const kept = 100
		cs := circuits{failures: 2, wait: 10 * time.Second, all: map[string]*circuit{}, kept: kept}
		call := func(name string, err error) bool {
			v := cs.of(name).enter("topic " + name)
			if v != nil {
				v.leave(err)
			}
			return v != nil
		}
		fails := errors.New("connection refused")
		require.True(t, call("open", fails))
		require.True(t, call("open", fails))
		require.False(t, call("open", fails))
		require.True(t, call("fails", fails))
		others := func(name string, err error) {
			called := 0
			for i := range kept {
				if call(fmt.Sprint(name, i), err) {
					called++
				}
			}
			require.Equal(t, kept, called)
		}
		others("good", nil)
		require.LessOrEqual(t, len(cs.all), kept)
		require.False(t, call("open", nil), "its circuit is open")
		require.True(t, call("fails", fails))
		require.False(t, call("fails", nil), "that was the second failure in a row")

		others("bad", fails) // each fails once
		require.LessOrEqual(t, len(cs.all), kept+2)
		require.False(t, call("open", nil))
		time.Sleep(2 * time.Hour)
		others("good", nil)
		others("better", nil)
		require.True(t, call("open", nil), "nobody has called it for long")
	})
}

// A hostile setter of tasks may name ever new targets that fail.
func TestAnOpenCircuitIsForgottenOnlyForOpenOnesAndLongAfterItsTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const kept = 100
		cs := circuits{failures: 2, wait: 10 * time.Second, all: map[string]*circuit{}, kept: kept}
		fails := errors.New("connection refused")
		call := func(name string, err error) bool {
			v := cs.of(name).enter("topic " + name)
			if v != nil {
				v.leave(err)
			}
			return v != nil
		}
		others := func(n int, err error) {
			for i := range n {
				name := fmt.Sprint(time.Now().Unix(), i)
				call(name, err)
				call(name, err)
			}
		}
		stillOpen := func() {
			t.Helper()
			require.True(t, call("open", fails), "the time of its trial has come")
			require.False(t, call("open", nil))
		}
		call("open", fails)
		call("open", fails)
		for range 5 {
			time.Sleep(time.Hour)
			others(2*kept, nil)
			require.LessOrEqual(t, len(cs.all), kept)
		}
		stillOpen()

		others(20*kept, fails)
		require.Greater(t, len(cs.all), 20*kept, "they get no calls now")
		time.Sleep(cs.wait + circuitUnwanted/2)
		others(1, nil)
		require.Greater(t, len(cs.all), 20*kept)
		stillOpen()
		time.Sleep(circuitUnwanted)
		others(1, nil)
		require.Equal(t, 2, len(cs.all), "nobody has called the others since")
		stillOpen()
	})
}

func TestTheTrialIsForTheCallerWhoseLastOneWasLongestAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cs := circuits{failures: 1, wait: 10 * time.Second, all: map[string]*circuit{}}
		c := cs.of("host")
		fails := errors.New("answer 500")
		c.enter("a").leave(fails)
		wakeup := make(chan struct{}, 1)
		var order []string
		for range 9 { // each waits for its turn, as soon as it comes
			for _, caller := range []string{"a", "b", "c"} {
				at, open := c.turn(caller, wakeup, time.Now())
				require.True(t, open)
				require.Equal(t, c.until.Add(time.Millisecond), at)
			}
			time.Sleep(time.Until(c.until.Add(time.Millisecond)))
			next := ""
			for _, caller := range []string{"c", "b", "a"} {
				if at, _ := c.turn(caller, wakeup, time.Now()); !at.After(time.Now()) {
					require.Empty(t, next, "%s has its turn, too", caller)
					next = caller
				} else {
					require.Nil(t, c.enter(caller))
				}
			}
			v := c.enter(next)
			require.NotNil(t, v)
			for _, other := range []string{"a", "b", "c", "d"} {
				require.Nil(t, c.enter(other))
			}
			v.leave(fails)
			order = append(order, next)
		}
		require.Equal(t, []string{"a", "b", "c", "a", "b", "c", "a", "b", "c"}, order)

		for _, caller := range []string{"a", "b", "c"} {
			c.turn(caller, wakeup, time.Now())
		}
		time.Sleep(time.Until(c.until.Add(time.Millisecond)))
		hasTurn := func(caller string) bool {
			at, _ := c.turn(caller, wakeup, time.Now())
			return !at.After(time.Now())
		}
		<-wakeup
		require.True(t, hasTurn("a"))
		require.False(t, hasTurn("b"))
		c.pass("a") // nothing was due
		<-wakeup
		require.True(t, hasTurn("b"))
		require.False(t, hasTurn("a"), "it has had its turn")
		require.False(t, hasTurn("c"))
		time.Sleep(2 * trialTurn) // it hangs
		v := c.enter("a")
		require.NotNil(t, v)
		at, open := c.turn("b", wakeup, time.Now())
		require.True(t, open)
		require.Greater(t, time.Until(at), time.Second)
		v.leave(nil)
		<-wakeup
		_, open = c.turn("b", wakeup, time.Now())
		require.False(t, open)
	})
}

func TestAWorkerThatHasNothingToTryWakesTheOthersOnceForEachTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openCircuit(t)
		idle, other := make(chan struct{}, 1), make(chan struct{}, 1)
		for range 3 {
			c.turn("idle", idle, time.Now())
			c.turn("other", other, time.Now())
			time.Sleep(c.wait + trialTurn)
			c.pass("idle")
			require.Len(t, other, 1)
			<-other
			for range 3 {
				c.turn("idle", idle, time.Now())
				c.pass("idle")
			}
			require.Empty(t, other)
			c.enter("other").leave(errors.New("answer 500"))
		}
	})
}

func TestACallerThatMissesItsTurnWaitsForTheNextRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openCircuit(t)
		wakeup := make(chan struct{}, 1)
		for range 3 {
			late := 0
			for range 2 {
				for _, caller := range []string{"never", "a", "b"} {
					c.turn(caller, wakeup, time.Now())
				}
				time.Sleep(time.Until(c.until.Add(time.Millisecond)))
				began := time.Now()
				for time.Since(began) <= trialTurn {
					if v := c.enter("a"); v != nil {
						v.leave(errors.New("answer 500"))
					} else if v := c.enter("b"); v != nil {
						v.leave(errors.New("answer 500"))
					} else {
						late++
						time.Sleep(trialTurn)
						continue
					}
					break
				}
			}
			require.Equal(t, 1, late)
		}
	})
}

// An engine may be so late that the tasks of all callers come back at once, whatever their turns.
func TestACallerWhoseTaskComesBackForTheTrialIsWaitedFor(t *testing.T) {
	for _, late := range []time.Duration{0, 50 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			cs := circuits{failures: 1, wait: 10 * time.Second, all: map[string]*circuit{}}
			c := cs.of("host")
			fails := errors.New("answer 500")
			c.enter("a").leave(fails)
			comeBack := func(callers ...string) {
				for _, caller := range callers {
					require.Nil(t, c.enter(caller), caller)
					c.putOff(caller, time.Now())
					time.Sleep(time.Millisecond)
				}
			}
			comeBack("a", "b", "c")
			trials := map[string]int{}
			for range 9 {
				time.Sleep(time.Until(c.until) + 70*time.Millisecond + late) // the turn of each has come
				for _, caller := range []string{"c", "b", "a"} {
					if v := c.enter(caller); v != nil {
						v.leave(fails)
						trials[caller]++
					} else {
						c.putOff(caller, time.Now())
					}
				}
				time.Sleep(2 * trialTurn)
				comeBack("c", "b", "a")
			}
			require.Equal(t, map[string]int{"a": 3, "b": 3, "c": 3}, trials)
		})
	}
}

func TestACallerWhoseTaskDoesNotComeBackHoldsTheTrialUpNoLongerThanATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cs := circuits{failures: 1, wait: 10 * time.Second, all: map[string]*circuit{}}
		c := cs.of("host")
		c.enter("a").leave(errors.New("answer 500"))
		c.putOff("a", time.Now())
		time.Sleep(time.Millisecond)
		second := c.putOff("b", time.Now())
		time.Sleep(second)
		require.Nil(t, c.enter("b"), "the task of a may come yet")
		again := c.putOff("b", time.Now())
		require.Greater(t, again, trialTurn/2)
		time.Sleep(again)
		require.LessOrEqual(t, second+again, c.wait+2*trialTurn)
		require.NotNil(t, c.enter("b"))
	})
}

// tasks are callers with endless failing tasks. A caller has some at a time.
type tasks struct {
	circuit *circuit
	due     []task
	trials  []string // the callers, in order
}

type task struct {
	caller string
	at     time.Time
}

func (ts *tasks) add(callers ...string) {
	for _, caller := range callers {
		ts.due = append(ts.due, task{caller, time.Now()})
	}
}

// try runs tasks until there were so many trials more.
func (ts *tasks) try(trials int) {
	for trials += len(ts.trials); len(ts.trials) < trials; {
		i := 0
		for j := range ts.due {
			if ts.due[j].at.Before(ts.due[i].at) {
				i = j
			}
		}
		one := &ts.due[i]
		time.Sleep(time.Until(one.at))
		if v := ts.circuit.enter(one.caller); v != nil {
			v.leave(errors.New("answer 500"))
			ts.trials = append(ts.trials, one.caller)
		}
		one.at = time.Now().Add(ts.circuit.putOff(one.caller, time.Now()))
	}
}

// shares returns how many of the last trials each topic had.
func (ts *tasks) shares(last int) map[string]int {
	shares := make(map[string]int)
	for _, caller := range ts.trials[len(ts.trials)-last:] {
		topic, _, _ := strings.Cut(caller, " ")
		shares[topic]++
	}
	return shares
}

func openCircuit(t *testing.T, well ...string) *circuit {
	cs := circuits{failures: 1, wait: 10 * time.Second, all: map[string]*circuit{}}
	c := cs.of("host")
	for _, caller := range well {
		v := c.enter(caller)
		require.NotNil(t, v)
		v.leave(nil)
	}
	c.enter("first 0").leave(errors.New("answer 500"))
	return c
}

func callersOf(topic string, n int) (callers []string) {
	for i := range n {
		callers = append(callers, fmt.Sprint(topic, " ", i))
	}
	return callers
}

func TestTheTrialsGoRoundAmongTopicsHoweverManyTargetsEachHas(t *testing.T) {
	for _, n := range []int{5, 100, 1200} {
		t.Run(fmt.Sprint("targets=", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts := tasks{circuit: openCircuit(t)}
				ts.add(callersOf("many", n)...)
				ts.try(3)
				ts.add("one 0", "two 0", "two 1", "many 0", "many 0")
				ts.try(30)
				shares := ts.shares(24)
				for _, topic := range []string{"many", "one", "two"} {
					require.InDelta(t, 8, shares[topic], 1, topic)
				}
			})
		})
	}
}

func TestTheTargetsOfATopicHaveTheirTrialsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := tasks{circuit: openCircuit(t)}
		ts.add(callersOf("topic", 5)...)
		ts.try(15)
		for i, caller := range ts.trials[5:] {
			require.Equal(t, ts.trials[i], caller)
		}
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(ts.trials))), 5)
	})
}

func TestEveryOtherTrialIsForTargetsThatWereWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		well := callersOf("well", 5)
		ts := tasks{circuit: openCircuit(t, well...)}
		for i := range 3 {
			ts.add(callersOf(fmt.Sprint("bad", i), 50)...)
		}
		ts.add(well...)
		ts.try(12)
		require.GreaterOrEqual(t, ts.shares(12)["well"], 5)
		require.LessOrEqual(t, ts.shares(12)["well"], 7)
		ts.try(48)
		require.LessOrEqual(t, ts.shares(48)["well"], 14, "they have failed, and are a topic like the others")
	})
}

func TestACircuitHasATrialEachWaitAndClosesByAnyCallThatSucceedsThen(t *testing.T) {
	fails := errors.New("answer 500")
	open := func() (*circuit, *visit) {
		cs := circuits{failures: 2, wait: 10 * time.Second, all: map[string]*circuit{}}
		c := cs.of("host")
		old := c.enter("a")
		c.enter("a").leave(fails)
		c.enter("a").leave(fails)
		return c, old
	}
	trial := func(c *circuit) *visit {
		require.Nil(t, c.enter("a"))
		time.Sleep(c.wait + 2*trialTurn)
		v := c.enter("a")
		require.NotNil(t, v)
		return v
	}
	calls := func(c *circuit) bool {
		first, second := c.enter("b"), c.enter("b")
		return first != nil && second != nil
	}
	for name, steps := range map[string]func(c *circuit, old *visit){
		"a trial":                            func(c *circuit, _ *visit) { trial(c).leave(nil) },
		"a second trial beside the first":    func(c *circuit, _ *visit) { trial(c); trial(c).leave(nil) },
		"a trial after another one began":    func(c *circuit, _ *visit) { v := trial(c); trial(c); v.leave(nil) },
		"a trial after another one failed":   func(c *circuit, _ *visit) { v := trial(c); trial(c).leave(fails); v.leave(nil) },
		"a call from before, during a trial": func(c *circuit, old *visit) { trial(c); old.leave(nil) },
		"a call from before, after a trial":  func(c *circuit, old *visit) { trial(c).leave(fails); old.leave(nil) },
		"a trial, and older failures":        func(c *circuit, old *visit) { v := trial(c); trial(c).leave(nil); v.leave(fails); old.leave(fails) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, old := open()
				steps(c, old)
				require.True(t, calls(c))
			})
		})
	}
	for name, steps := range map[string]func(c *circuit, old *visit){
		"a call from before, at once":  func(_ *circuit, old *visit) { old.leave(nil) },
		"a trial that fails":           func(c *circuit, _ *visit) { trial(c).leave(fails) },
		"a trial that is given up":     func(c *circuit, _ *visit) { v := trial(c); v.judge(fails); v.leave(nil) },
		"two failures after a success": func(c *circuit, _ *visit) { trial(c).leave(nil); c.enter("a").leave(fails); c.enter("a").leave(fails) },
	} {
		t.Run("not by "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, old := open()
				steps(c, old)
				require.False(t, calls(c))
			})
		})
	}
	t.Run("a trial broken off makes room for the next one", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, _ := open()
			trial(c).leave(errNoCall)
			time.Sleep(2 * trialTurn)
			require.NotNil(t, c.enter("a"))
			require.Nil(t, c.enter("a"))
		})
	})
}

func TestATaskThatIsPutOffWaitsNoLongerThanTheTargetWasDown(t *testing.T) {
	const wait = 10 * time.Second
	now := time.Now()
	for longest := wait; longest < 5*time.Hour; longest *= 4 {
		var p pacer
		least, most, first := longest, time.Duration(0), time.Duration(0)
		for i := range 3000 {
			after := p.after(now, wait, longest)
			least, most = min(least, after), max(most, after)
			if i < backRate*int(wait/time.Second)/2 {
				first = max(first, after)
			}
		}
		require.GreaterOrEqual(t, least, wait/2)
		require.LessOrEqual(t, most, longest*3/2)
		require.LessOrEqual(t, first, wait*3/2, "few come back soon")
		require.LessOrEqual(t, p.last.Sub(now), longest)
	}
}
