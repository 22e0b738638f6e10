package wheel

import (
	"math"
	"sync"
	"time"
)

// times is a wheel's knowledge of its time. It has a lock of its own, so the time goes on
// while the wheel is locked. The wheel's lock may be held on a call of these methods, and
// not the other way round.
type times struct {
	clock clock // read by touches

	since  func() time.Duration // time since the start
	asleep func() time.Duration // suspend time missing from since

	timeMu sync.Mutex // guards the fields below
	pace   pace
	lag    lagLog
	told   time.Duration // of the length of all stalls
}

// Now returns the beginning of the present tick, by the wheel's time, and from now on touches
// are dated by this tick. If the hand may sleep, see Config.MaxSleep, Now asks the clock: call
// it after a wait and before a touch. That takes some 30 ns. Otherwise the hand tells, and Now
// is two loads. It never waits.
func (s *times) Now() time.Duration {
	if s.clock.sleeps && int64(s.since()) >= s.clock.over.Load() && s.timeMu.TryLock() {
		s.publish(s.pace.asleep)
		s.timeMu.Unlock()
	}
	return time.Duration(s.clock.now.Load()) * s.clock.tick
}

// Time returns the wheel's time as it was so long ago: the running time of the wheel by
// then, less all stalls and the graces after them, see [Config].Stall. Time(0) is this
// moment. It asks the clock. The wheel remembers 256 stalls. After more, the result may be too
// late, by a third of its age at most, and is never too early.
func (s *times) Time(ago time.Duration) time.Duration {
	s.timeMu.Lock()
	defer s.timeMu.Unlock()
	since := s.since()
	return s.pace.at(since) - s.pace.counted(since, ago)
}

// Lost returns how much longer the world has gone on than the wheel's time: by all stalls, and the graces
// after them, see [Config].Stall, and by all suspends. It is up to date at the last look at the clock.
func (s *times) Lost() time.Duration {
	s.timeMu.Lock()
	defer s.timeMu.Unlock()
	return s.pace.lost + s.pace.asleep
}

// look brings the tick up to the clock, and returns the wheel's time and its tick, and the
// length of the stalls since the last call.
func (s *times) look(asleep time.Duration) (now time.Duration, tick uint64, stalled time.Duration) {
	s.timeMu.Lock()
	defer s.timeMu.Unlock()
	now, tick = s.publish(asleep)
	stalled, s.told = s.pace.stalled-s.told, s.pace.stalled
	return now, tick, stalled
}

// publish is look, but for the stalls. timeMu must be held.
func (s *times) publish(asleep time.Duration) (now time.Duration, tick uint64) {
	c := &s.clock
	now = s.pace.look(s.since(), asleep)
	looked := now // at the last look
	tick = uint64(now / c.tick)
	if last := c.now.Load(); tick > last {
		// A touch dated by last read it before this store, so before the second look at the
		// clock.
		c.now.Store(tick)
		looked = s.pace.look(s.since(), asleep)
		s.lag.left(tick, looked-time.Duration(last+1)*c.tick)
	}
	over := int64(math.MaxInt64) // in a grace the hand looks at the clock, and nobody else
	if s.pace.grace == 0 {
		over = int64(s.pace.looked + time.Duration(tick+1)*c.tick - looked)
	}
	c.over.Store(over)
	return now, tick
}

// lastOf returns the last instant of touches dated by a tick: its end and its lag, or the
// wheel's time if it is the present tick.
func (s *times) lastOf(tick uint64) time.Duration {
	s.timeMu.Lock()
	defer s.timeMu.Unlock()
	if tick >= s.lag.last {
		return s.pace.at(s.since())
	}
	return s.clock.span(tick+1) + s.lag.of(tick)
}

// waitFor returns how long it is until an instant of the wheel's time.
func (s *times) waitFor(wake time.Duration) time.Duration {
	s.timeMu.Lock()
	defer s.timeMu.Unlock()
	wait := max(0, wake-s.pace.at(s.since()))
	if s.pace.grace > 0 { // time stands still, but the hand has to look at the clock
		wait = min(s.pace.grace+wait, s.pace.sleep)
	}
	return wait
}
