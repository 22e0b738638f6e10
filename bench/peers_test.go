package bench

import (
	"strconv"
	"time"

	russellluo "github.com/RussellLuo/timingwheel"
	antlabs "github.com/antlabs/timer"
	ouqiang "github.com/ouqiang/timewheel"
	rfyiamcool "github.com/rfyiamcool/go-timewheel"
	"github.com/zeromicro/go-zero/core/collection"
)

// makeKeys returns keys as a program has them: strings, each allocated on its
// own.
func makeKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = "session-" + strconv.Itoa(i)
	}
	return keys
}

// goZero is go-zero's TimingWheel. Its keys are put into interfaces beforehand,
// which is to its advantage.
type goZero struct {
	wheel   *collection.TimingWheel
	keys    []any
	timeout time.Duration
}

func newGoZero(s setting) deadlines {
	w, err := collection.NewTimingWheel(s.tick, slots, func(_, value any) { s.expired(value.(int)) })
	if err != nil {
		panic(err)
	}
	g := &goZero{wheel: w, keys: make([]any, s.conns), timeout: s.timeout}
	for i, key := range makeKeys(s.conns) {
		g.keys[i] = key
	}
	return g
}

func (g *goZero) add(i int, d time.Duration) { _ = g.wheel.SetTimer(g.keys[i], i, d) }
func (g *goZero) touch(i int)                { _ = g.wheel.MoveTimer(g.keys[i], g.timeout) }
func (g *goZero) remove(i int)               { _ = g.wheel.RemoveTimer(g.keys[i]) }
func (g *goZero) close()                     { g.wheel.Stop() }

// russellLuo has no Reset: a touch stops the timer and makes a new one.
type russellLuo struct {
	setting
	wheel  *russellluo.TimingWheel
	timers []*russellluo.Timer
}

func newRussellLuo(s setting) deadlines {
	w := russellluo.NewTimingWheel(s.tick, slots)
	w.Start()
	return &russellLuo{setting: s, wheel: w, timers: make([]*russellluo.Timer, s.conns)}
}

func (r *russellLuo) add(i int, d time.Duration) {
	r.timers[i] = r.wheel.AfterFunc(d, func() { r.expired(i) })
}
func (r *russellLuo) touch(i int)  { r.timers[i].Stop(); r.add(i, r.timeout) }
func (r *russellLuo) remove(i int) { r.timers[i].Stop() }
func (r *russellLuo) close()       { r.wheel.Stop() }

// antlabsWheel's Reset locks itself out when the deadline stays in its slot, so
// a touch stops the timer and makes a new one. Its tick is always 10ms.
type antlabsWheel struct {
	setting
	wheel  antlabs.Timer
	timers []antlabs.TimeNoder
}

func newAntlabs(s setting) deadlines {
	w := antlabs.NewTimer(antlabs.WithTimeWheel())
	go w.Run()
	time.Sleep(10 * time.Millisecond) // Run and Stop must not meet
	return &antlabsWheel{setting: s, wheel: w, timers: make([]antlabs.TimeNoder, s.conns)}
}

func (a *antlabsWheel) add(i int, d time.Duration) {
	a.timers[i] = a.wheel.AfterFunc(d, func() { a.expired(i) })
}
func (a *antlabsWheel) touch(i int)  { a.timers[i].Stop(); a.add(i, a.timeout) }
func (a *antlabsWheel) remove(i int) { a.timers[i].Stop() }
func (a *antlabsWheel) close()       { a.wheel.Stop() }

// rfyiamcoolWheel's Reset leaves the old task behind, so a touch removes the
// task and adds a new one.
type rfyiamcoolWheel struct {
	setting
	wheel *rfyiamcool.TimeWheel
	tasks []*rfyiamcool.Task
}

func newRfyiamcool(s setting) deadlines {
	w, err := rfyiamcool.NewTimeWheel(s.tick, slots)
	if err != nil {
		panic(err)
	}
	w.Start()
	return &rfyiamcoolWheel{setting: s, wheel: w, tasks: make([]*rfyiamcool.Task, s.conns)}
}

func (r *rfyiamcoolWheel) add(i int, d time.Duration) {
	r.tasks[i] = r.wheel.Add(d, func() { r.expired(i) })
}
func (r *rfyiamcoolWheel) touch(i int)  { _ = r.wheel.Remove(r.tasks[i]); r.add(i, r.timeout) }
func (r *rfyiamcoolWheel) remove(i int) { _ = r.wheel.Remove(r.tasks[i]) }
func (r *rfyiamcoolWheel) close()       { r.wheel.Stop() }

// ouqiangWheel cannot move a timer: a touch removes the key and adds it again,
// which looks through a slot. Ticks shorter than a second make it divide by 0.
type ouqiangWheel struct {
	wheel   *ouqiang.TimeWheel
	keys    []any
	timeout time.Duration
}

func newOuqiang(s setting) deadlines {
	w := ouqiang.New(max(s.tick, time.Second), slots, func(data any) { s.expired(data.(int)) })
	w.Start()
	o := &ouqiangWheel{wheel: w, keys: make([]any, s.conns), timeout: s.timeout}
	for i, key := range makeKeys(s.conns) {
		o.keys[i] = key
	}
	return o
}

func (o *ouqiangWheel) add(i int, d time.Duration) { o.wheel.AddTimer(d, o.keys[i], i) }
func (o *ouqiangWheel) touch(i int)                { o.wheel.RemoveTimer(o.keys[i]); o.add(i, o.timeout) }
func (o *ouqiangWheel) remove(i int)               { o.wheel.RemoveTimer(o.keys[i]) }
func (o *ouqiangWheel) close()                     { o.wheel.Stop() }
