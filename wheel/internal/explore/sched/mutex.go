package sched

// Mutex is a lock for one writer, or for readers. A waiting actor has no step.
type Mutex struct {
	Var
	held    bool
	owner   *actor // that holds it for writing, in a run
	readers int
}

// isFree reports whether the lock can be taken.
func (m *Mutex) isFree(toWrite bool) bool { return !m.held && (!toWrite || m.readers == 0) }

// Lock is a step.
func (m *Mutex) Lock() {
	m.await(true)
	m.take()
	m.done("lock")
}

// TryLock is a step.
func (m *Mutex) TryLock() bool {
	ok := m.Try(func() bool { return m.isFree(true) })
	if ok {
		m.take()
	}
	if Traced() {
		m.Trace("lock, if it is free: %v", ok)
	}
	return ok
}

// RLock is a step.
func (m *Mutex) RLock() {
	m.await(false)
	m.readers++
	m.done("lock to read")
}

// Unlock belongs to the step before it. A step of its own would add nothing: it commutes with
// every step of another actor while the lock is held.
func (m *Mutex) Unlock() {
	if !m.held && !isAbandoned() {
		panic("unlocked, but not locked")
	}
	m.held, m.owner = false, nil
	m.done("unlock")
}

// RUnlock belongs to the step before it, like Unlock.
func (m *Mutex) RUnlock() {
	if m.readers == 0 && !isAbandoned() {
		panic("unlocked, but not locked")
	}
	m.readers--
	m.done("unlock")
}

// await is the step before the lock is taken.
func (m *Mutex) await(toWrite bool) {
	s := turn
	if s != nil && m.isFree(toWrite) {
		s.point()
	}
	if s != nil && !m.isFree(toWrite) && !s.abandoned {
		s.wait(m, toWrite)
	}
	if !m.isFree(toWrite) && !isAbandoned() {
		panic("locked twice")
	}
}

func (m *Mutex) take() {
	m.held = true
	if turn != nil {
		m.owner = turn.current
	}
}

func (m *Mutex) done(what string) {
	if turn != nil {
		m.hasWritten()
		if Traced() {
			m.Trace("%s", what)
		}
	}
}

// wait lets others go on until the lock is free.
func (s *schedule) wait(m *Mutex, toWrite bool) {
	a := s.current
	a.waiting, a.toWrite, a.atOnce = m, toWrite, false
	next := s.choose()
	if next == nil {
		next = a // a deadlock: the schedule sees it once a has yielded
	}
	s.change(next)
	a.waiting = nil
}

// isAbandoned reports whether the actors unwind, each from wherever it is.
func isAbandoned() bool { return turn != nil && turn.abandoned }
