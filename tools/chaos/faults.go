package main

// A fault is a change of the product: it makes a race wrong, and most plain tests miss it. It is applied in
// an overlay, never in the tree. A test checks whether each still fits the product.
type fault struct {
	name  string
	tests string // the package with the tests to find it
	run   string // the tests with overlapping calls, if the package has very many others
	file  string
	from  string // stands there once
	to    string
}

var faults = []fault{
	{
		name: "wheel-touch-lost-race", tests: "./wheel", run: racesOfWheel, file: "wheel/timer.go",
		from: "				return true\n			}\n		case due:\n			return t.save()\n",
		to:   "				return true\n			}\n			return true\n		case due:\n			return t.save()\n",
	},
	{
		name: "wheel-expire-looks-before-lock", tests: "./wheel", run: racesOfWheel, file: "wheel/timer.go",
		from: `	if !isRunning(t.word.Load()) {
		return false // perhaps without a wheel yet
	}
	w := t.wheel
	w.mu.Lock()
	defer w.mu.Unlock()
	old := t.word.Load()
	return isRunning(old) && f(w, old)
`,
		to: `	old := t.word.Load()
	if !isRunning(old) {
		return false // perhaps without a wheel yet
	}
	w := t.wheel
	w.mu.Lock()
	defer w.mu.Unlock()
	return isRunning(old) && f(w, old)
`,
	},
	{
		name: "wheel-visit-stores-blindly", tests: "./wheel", run: racesOfWheel, file: "wheel/hand.go",
		from: "		if t.word.CompareAndSwap(old, old&^stateMask|due) {\n",
		to:   "		if t.word.Store(old&^stateMask | due); true {\n",
	},
	{
		name: "pool-wait-lost-wakeup", tests: "./pool", file: "pool/full.go",
		from: "			p.wake() // there may be room for the next caller, too\n",
		to:   "",
	},
	{
		name: "pool-room-checked-without-lock", tests: "./pool", file: "pool/pool.go",
		from: `		defer p.mu.Unlock()
		joins := timeout > 0 && !m.WasStarted() // or Start refuses it, and nobody has to go for that
		if joins && !p.makeRoom(int(capacity)) {
`,
		to: `		joins := timeout > 0 && !m.WasStarted() // or Start refuses it, and nobody has to go for that
		room := !joins || p.makeRoom(int(capacity))
		p.mu.Unlock()
		if !room {
`,
	},
	{
		name: "keepalive-share-in-two-steps", tests: "./keepalive", run: racesOfKeepalive, file: "keepalive/room.go",
		from: "		return nil, false\n	}\n	taken.conns++\n",
		to:   "		return nil, false\n	}\n	s.mu.Unlock()\n	s.mu.Lock()\n	taken.conns++\n",
	},
	{
		name: "gnet-loop-lost-wakeup", tests: "./keepalive/gnetkeepalive", run: racesOfGnet, file: "keepalive/gnetkeepalive/loop.go",
		from: "	if lost != nil || len(l.due) == 0 {\n",
		to:   "	if lost != nil || len(l.due) == 0 {\n		l.mu.Unlock()\n		l.mu.Lock()\n",
	},
	{
		name: "timeout-batch-ends-in-two-steps", tests: "./timeout", run: racesOfTimeout, file: "internal/groupcommit/groupcommit.go",
		from: "		if len(batch) == 0 {\n",
		to:   "		if len(batch) == 0 {\n			c.mu.Unlock()\n			c.mu.Lock()\n",
	},
	{
		name: "fleet-session-ends-twice", tests: "./fleet", run: racesOfFleet, file: "fleet/session.go",
		from: "		return false\n	}\n	s.over, s.left = reason, left\n",
		to:   "		return false\n	}\n	s.mu.Unlock()\n	s.mu.Lock()\n	s.over, s.left = reason, left\n",
	},
}

// The tests with several goroutines, of packages with other, long tests.
const (
	racesOfWheel     = "Against|Race|Concurrent|MovesThatReturnTrueHold|Churn|Whatever"
	racesOfKeepalive = "Everything|Condemned|Shares|Watchers"
	racesOfGnet      = "MassExpiry|SilentOnes|Eviction|Turns|Verdict|Drain"
	racesOfTimeout   = "Pull|RunsOnce|Concurrency|Starves|Share|Together|Stopping|Burst|LeavesRoom"
	racesOfFleet     = "AtOnceLeave|Hops|Closed|ToldOnce|Detached|AKick|Kicked|RegisteredAgain"
)
