package heartbeat

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/heartwheel-go/heartwheel/wheel"
)

// Stats is what a Beater has done, at one moment.
type Stats struct {
	Conns      int    // connections with beats
	Beats      uint64 // sent
	Unanswered uint64 // connections closed because of ErrNoAnswer
	Failed     uint64 // connections closed because a beat could not be sent
	Panics     uint64 // panics of functions of the user
	Wheel      wheel.Stats
}

// Stats returns the Beater's figures.
func (b *Beater) Stats() Stats {
	return Stats{
		Conns:      b.wheel.Len(),
		Beats:      b.beats.Load(),
		Unanswered: b.unanswered.Load(),
		Failed:     b.failed.Load(),
		Panics:     b.panics.Load(),
		Wheel:      b.wheel.Stats(),
	}
}

// call runs a function of the user and returns its error. A panic, or the end of its goroutine,
// harms nobody else.
func (b *Beater) call(name string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			b.reportPanic(fmt.Sprintf("%s: %v", name, v), debug.Stack())
			err = fmt.Errorf("%s panicked: %v", name, v)
		}
	}()
	return f()
}

func (b *Beater) reportPanic(value any, stack []byte) {
	b.panics.Add(1)
	b.log.Error("heartbeat: callback panicked", "panic", value, "stack", string(stack))
}

// report says in the log how the beats of a connection have failed, and counts it.
func (b *Beater) report(err error) {
	if errors.Is(err, ErrNoAnswer) {
		b.unanswered.Add(1)
	} else {
		b.failed.Add(1)
	}
	b.log.Debug("heartbeat: closed a connection", "error", err)
}
