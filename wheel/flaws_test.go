package wheel

import (
	"container/list"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Timing wheels of others lose timers in some ways, or fire them twice. Each test here has
// one check of such a flaw: a small wheel with the flaw must fail it, and ours must pass.

// calendar runs functions at instants. The check of flaw 30 needs no more.
type calendar interface {
	at(when time.Time, f func())
	stop()
}

// checkThePast sets a function for an instant in the past, between two others.
func checkThePast(c calendar) error {
	defer c.stop()
	var mu sync.Mutex
	ran := map[string]int{}
	for _, task := range []struct {
		name  string
		after time.Duration
	}{{"before", 3 * time.Second}, {"past", -time.Second}, {"after", 3 * time.Second}} {
		go c.at(time.Now().Add(task.after), func() {
			mu.Lock()
			defer mu.Unlock()
			ran[task.name]++
		})
		synctest.Wait()
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	mu.Lock()
	defer mu.Unlock()
	for _, name := range []string{"before", "past", "after"} {
		if ran[name] != 1 {
			return fmt.Errorf("%s ran %d times, must be once", name, ran[name])
		}
	}
	return nil
}

// cycleWheel is a ring of lists with a count of rounds, owned by one goroutine. A panic
// ends the goroutine, and is recovered.
type cycleWheel struct {
	slots   []list.List
	current int
	added   chan *cycleTask
	stopped chan struct{}
}

type cycleTask struct {
	when       time.Time
	pos, cycle int
	f          func()
}

func newCycleWheel() *cycleWheel {
	w := &cycleWheel{slots: make([]list.List, 10), added: make(chan *cycleTask), stopped: make(chan struct{})}
	go w.run()
	return w
}

func (w *cycleWheel) at(when time.Time, f func()) {
	delay := int(time.Until(when) / time.Second)
	task := &cycleTask{when: when, pos: (w.current + delay) % len(w.slots), cycle: delay / len(w.slots), f: f}
	select {
	case w.added <- task:
	case <-w.stopped: // lets this test end; the original has no such case
	}
}

func (w *cycleWheel) stop() { close(w.stopped) }

func (w *cycleWheel) run() {
	defer func() { _ = recover() }()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			w.tick()
		case task := <-w.added:
			w.slots[task.pos].PushBack(task)
		case <-w.stopped:
			return
		}
	}
}

func (w *cycleWheel) tick() {
	slot := &w.slots[w.current]
	for e := slot.Front(); e != nil; {
		next, task := e.Next(), e.Value.(*cycleTask)
		if task.cycle--; task.cycle < 0 {
			slot.Remove(e)
			go task.f()
		}
		e = next
	}
	w.current = (w.current + 1) % len(w.slots)
}

// ownCalendar is this package's wheel.
type ownCalendar struct{ *Wheel }

func (c ownCalendar) at(when time.Time, f func()) { c.AfterFunc(time.Until(when), f) }
func (c ownCalendar) stop()                       { c.Stop() }

func TestFlaw30ATimeThatHasPassedEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		require.EqualError(t, checkThePast(newCycleWheel()), "before ran 0 times, must be once")
		ours, err := New(Config{Tick: time.Second})
		require.NoError(t, err)
		require.NoError(t, checkThePast(ownCalendar{ours}))
	})
}

// mover is a keyed wheel with a tick of a second, for the check of flaw 32.
type mover interface {
	SetTimer(key string, value int, delay time.Duration) error
	MoveTimer(key string, delay time.Duration) error
	Stop()
}

// checkAShortMove moves a timer to less than a tick from now, and waits until long after
// its first deadline.
func checkAShortMove(w mover, fired func() int) error {
	defer w.Stop()
	if err := w.SetTimer("session", 1, 5*time.Second); err != nil {
		return err
	}
	if err := w.MoveTimer("session", time.Millisecond); err != nil {
		return err
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	if n := fired(); n != 1 {
		return fmt.Errorf("fired %d times, must be once", n)
	}
	return nil
}

// hastyWheel executes a timer at once if it is moved to less than a tick from now, and
// leaves the entry in its slot.
type hastyWheel struct {
	mu      sync.Mutex
	slots   []map[string]int // values by key
	pos     map[string]int   // slots by key
	current int
	execute func(key string, value int)
	stopped chan struct{}
}

func newHastyWheel(execute func(string, int)) *hastyWheel {
	w := &hastyWheel{slots: make([]map[string]int, 10), pos: map[string]int{}, execute: execute, stopped: make(chan struct{})}
	for i := range w.slots {
		w.slots[i] = map[string]int{}
	}
	go w.run()
	return w
}

func (w *hastyWheel) SetTimer(key string, value int, delay time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pos[key] = (w.current + int(delay/time.Second)) % len(w.slots)
	w.slots[w.pos[key]][key] = value
	return nil
}

func (w *hastyWheel) MoveTimer(key string, delay time.Duration) error {
	w.mu.Lock()
	value, ok := w.slots[w.pos[key]][key]
	w.mu.Unlock()
	switch {
	case !ok:
		return nil
	case delay < time.Second:
		go w.execute(key, value)
		return nil // and here the entry stays
	}
	w.mu.Lock()
	delete(w.slots[w.pos[key]], key)
	w.mu.Unlock()
	return w.SetTimer(key, value, delay)
}

func (w *hastyWheel) Stop() { close(w.stopped) }

func (w *hastyWheel) run() {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			w.mu.Lock()
			w.current = (w.current + 1) % len(w.slots)
			due := w.slots[w.current]
			w.slots[w.current] = map[string]int{}
			w.mu.Unlock()
			for key, value := range due {
				w.execute(key, value)
			}
		case <-w.stopped:
			return
		}
	}
}

func TestFlaw32AMoveToLessThanATickFiresOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		record := &record[string, int]{start: time.Now()}
		fired := func() int { return len(record.fires()) }
		require.EqualError(t, checkAShortMove(newHastyWheel(record.execute), fired), "fired 2 times, must be once")
		record.restart()
		ours, err := NewTimingWheel(time.Second, 10, record.execute)
		require.NoError(t, err)
		require.NoError(t, checkAShortMove(ours, fired))
	})
}
