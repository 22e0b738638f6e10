package explore_test

// mutant is a fault for the explorer to find.
type mutant struct {
	name    string
	patches []patch
}

// quick is how many mutants, the first ones, are in the smaller depth.
const quick = 6

// mutants are faults of the engine. Each is a small change of the product's source.
var mutants = []mutant{
	{"a blind store in Touch", []patch{{
		"timer.go", "			if old == next || t.word.CompareAndSwap(old, next) {\n", "			if t.word.Store(next); true {\n",
	}}},
	{"Touch does not look again after a lost race", []patch{{
		"timer.go", "				return true\n			}\n		case due:\n			return t.save()\n", "				return true\n			}\n			return true\n		case due:\n			return t.save()\n",
	}}},
	{"Move does not bring the visit forward", []patch{{
		"timer.go", "			w.bringForward(t, next)\n", "",
	}}},
	{"SetDelay does not bring the visit forward", []patch{{
		"timer.go", "		w.bringForward(t, old)\n", "		_ = w.bringForward\n",
	}}},
	{"the visit stores blindly", []patch{{
		"hand.go", "		if t.word.CompareAndSwap(old, old&^stateMask|due) {\n", "		if t.word.Store(old&^stateMask | due); true {\n",
	}}},
	{"a method looks before it has the lock", []patch{{
		"timer.go", `	if !isRunning(t.word.Load()) {
		return false // perhaps without a wheel yet
	}
	w := t.wheel
	w.mu.Lock()
	defer w.mu.Unlock()
	old := t.word.Load()
	return isRunning(old) && f(w, old)
`, `	old := t.word.Load()
	if !isRunning(old) {
		return false // perhaps without a wheel yet
	}
	w := t.wheel
	w.mu.Lock()
	defer w.mu.Unlock()
	return isRunning(old) && f(w, old)
`,
	}}},
	{"Touch reads the tick before the word", []patch{{
		"timer.go", `		switch old := t.word.Load(); old & stateMask {
		case pending:
			next := touchedOn(t.wheel.clock.now.Load())
			if old == next`, `		if t.wheel == nil {
			return false
		}
		next := touchedOn(t.wheel.clock.now.Load())
		switch old := t.word.Load(); old & stateMask {
		case pending:
			if old == next`,
	}}},
	{"a touch in the middle of Remove is lost", []patch{{
		"timer.go", `		for !t.word.CompareAndSwap(old, old&^stateMask|state) {
			old = t.word.Load() // touched meanwhile
		}
`, `		if !t.word.CompareAndSwap(old, old&^stateMask|state) {
			return false
		}
`,
	}}},
	{"Remove leaves the entry", []patch{{
		"timer.go", "		w.levels.slots.remove(t, w.hand)\n", "",
	}}},
	{"Remove does not count down the slot", []patch{{
		"slots.go", "	c.slot.len--\n", "",
	}}},
	{"the entry in the gap is not told its place", []patch{{
		"slots.go", "c.entry[i], moved.filed = moved, t.filed", "c.entry[i] = moved",
	}}},
	{"Expire does not ask for a touch meanwhile", []patch{{
		"timer.go", "!isDue(old, bits)", "old&bits != bits",
	}}},
	{"Rearm does not ask for a touch meanwhile", []patch{{
		"rearm.go", `		if !isDue(old, bits) {
			return false
		}
`, `		if old&stateMask == pending {
			t.word.Store(old&^stateMask | due)
			w.levels.slots.remove(t, w.hand)
			w.levels.slots.put(&w.backlog.slot, never, t)
			old = t.word.Load()
		}
`,
	}}},
	{"ExpireSeen does not ask for a touch since the look", []patch{{
		"timer.go", "!isDue(old, bits)", "!isDue(old, 0)",
	}}},
	{"RearmSeen does not ask for a touch since the look", []patch{{
		"rearm.go", "!isDue(old, bits)", "!isDue(old, 0)",
	}}},
	{"TouchAt takes a later touch back", []patch{{
		"rearm.go", "if w.lastOf(last) > at {", "if false {",
	}}},
	{"HandOver stores blindly", []patch{{
		"rearm.go", "			if t.word.CompareAndSwap(old, old&^stateMask|due) {\n", "			if t.word.Store(old&^stateMask | due); true {\n",
	}}},
	{"HandOverIdle looks before the lock", []patch{{
		"rearm.go", `	return t.locked(func(w *WheelOf[V], old word) bool {
		for ; old&stateMask == pending && !w.closed.Load() && w.lastOf(touchedTick(old)) <= since;`, `	if at, _ := t.Touched(); at > since {
		return false
	}
	return t.locked(func(w *WheelOf[V], old word) bool {
		for ; old&stateMask == pending && !w.closed.Load();`,
	}}},
	{"Look stores blindly", []patch{{
		"rearm.go", `		for !t.word.CompareAndSwap(old, old|seen) {
			old = t.word.Load() // touched meanwhile
		}
`, `		t.word.Store(old | seen)
`,
	}}},
	{"a method does not see that the timer has ended before it had the lock", []patch{{
		"timer.go", "	return isRunning(old) && f(w, old)\n", "	return f(w, old)\n",
	}}},
	{"the earliest touch is that of the next tick", []patch{{
		"rearm.go", "From:    w.clock.span(touchedTick(old)),", "From:    w.clock.span(touchedTick(old) + 1),",
	}}},
	{"a rearmed timer is due by its touch", []patch{{
		"rearm.go", "DueAt:   w.clock.span(t.dueTick(old)),", "DueAt:   w.clock.span(t.dueTick(old &^ rearmed)),",
	}}},
	{"the visit does not look again after a lost race", []patch{{
		"hand.go", "&p.backlog.slot, never, t)\n			return\n		}\n", "&p.backlog.slot, never, t)\n			return\n		}\n		return\n",
	}}},
	{"the visit does not file again", []patch{{
		"hand.go", "				p.file(t, old)\n", "",
	}}},
	{"nothing is held back for a late hand", []patch{{
		"hand.go", "at > p.now {", "at > p.now && false {",
	}}},
	{"the lag is that of the look before the tick was published", []patch{{
		"times.go", "		looked = s.pace.look(s.since(), asleep)\n", "		looked = now\n",
	}}},
	{"the tick is published after the look for the lag", []patch{{
		"times.go", `		c.now.Store(tick)
		looked = s.pace.look(s.since(), asleep)
`, `		looked = s.pace.look(s.since(), asleep)
		c.now.Store(tick)
`,
	}}},
	{"no tick on top of a touch", []patch{{
		"timer.go", "	return touchedTick(at) + t.delay + 1\n", "	return touchedTick(at) + t.delay\n",
	}}},
	{"the entry is filed twice when it is brought forward", []patch{{
		"filing.go", "		s.remove(t, w.hand)\n", "",
	}}},
	{"a rearmed timer is filed for its deadline, whatever a touch needs", []patch{{
		"filing.go", "		by = min(by, w.hand+t.delay+1)\n", "",
	}}},
	{"a rearmed timer is filed for a touch from the tick of the clock", []patch{{
		"filing.go", "w.hand+t.delay+1", "w.clock.now.Load()+t.delay+1",
	}}},
	{"a reader publishes a tick without the lock", []patch{{
		"times.go", `s.clock.over.Load() && s.timeMu.TryLock() {
		s.publish(s.pace.asleep)
		s.timeMu.Unlock()
`, `s.clock.over.Load() {
		s.publish(s.pace.asleep)
`,
	}}},
	{"a timer filed early does not wake the hand", []patch{{
		"hand.go", "at < w.wake {", "at < w.wake && false {",
	}}},
	{"a saved timer stays in the backlog", []patch{{
		"filing.go", "	w.levels.slots.remove(t, w.hand)\n", "",
	}}},
	{"Touched forgets the last touch of an ended timer", []patch{{
		"rearm.go", "	return w.lastOf(touchedTick(word)), isRunning(word) && isQuiet(word)\n", "	if !isRunning(word) {\n		return 0, false\n	}\n	return w.lastOf(touchedTick(word)), isQuiet(word)\n",
	}}},
}
