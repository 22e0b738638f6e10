package postgres

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// lookEvery is the shortest time from the end of a look to the next. A slow one is made less often: lookShare times
	// its duration passes before the next, but no more than lookMost.
	lookEvery = time.Second
	lookShare = 10
	lookMost  = 30 * time.Second

	// A front counts for lookLasts times the pause between looks, or the duration of one if that is longer: until the
	// next look has ended. So a row committed too late is found.
	lookLasts = 3

	lookTimeout = time.Minute

	// frontBehind is how far a front stays behind the clock, in milliseconds. A task filed earlier than pastAfter (see told.sql)
	// before the clock is told of. So a transaction may take commitWithin to commit what it has filed.
	frontBehind  = 2000
	commitWithin = time.Second
)

// front is where the live rows of a topic begin in the index, in milliseconds of the server's clock. Before it there can be
// very many dead rows: as long as a transaction is open anywhere, the server keeps what was alive at its begin, and a scan
// from the start reads all of it. The zero value is no front: past is never -1.
type front struct {
	past    int64 // the last number of hw_past
	at      int64 // when it was looked for
	waiting int64 // no waiting task is filed before
	running int64 // no lease ends before
	ahead   int64 // no lease ends from at to then
}

// unknown has every statement look from the start.
var unknown = front{past: -1}

func (f front) numbers() []int64 { return []int64{f.past, f.at, f.waiting, f.running, f.ahead} }

// frontier finds the front of a topic again and again, in the background, as long as the topic is asked for.
type frontier struct {
	mu       sync.Mutex
	front    front
	until    time.Time // the front counts until then
	next     time.Time // when to look again
	looking  bool
	shortest int64     // of the leases that this engine has given, in milliseconds
	past     int64     // the last number of hw_past that a look has seen
	since    time.Time // when a look first saw it
}

func newFrontier() *frontier {
	return &frontier{front: unknown, past: -1, shortest: math.MaxInt64}
}

// leases notes that leases of that many milliseconds are given.
func (f *frontier) leases(lease int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shortest = min(f.shortest, lease)
}

// get returns the front, and whether the caller is to look for it anew.
func (f *frontier) get(now time.Time) (front front, look bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.looking && !now.Before(f.next) {
		f.looking, look = true, true
	}
	if !now.Before(f.until) {
		return unknown, look
	}
	front = f.front
	front.ahead = min(front.ahead, front.at+min(f.shortest, math.MaxInt64-front.at))
	return front, look
}

// seen is what a look has found: the server's clock, the last number of hw_past, and when the first due and the first
// running task are filed, or nil.
type seen struct {
	now, past    int64
	due, running *int64
}

// looked takes what a look from began to ended has found. What was told of in between may not be committed yet.
func (f *frontier) looked(s seen, began, ended time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looking = false
	took := ended.Sub(began)
	pause := min(max(lookEvery, lookShare*took), lookMost)
	f.next = ended.Add(pause)
	if s.past != f.past {
		f.past, f.since = s.past, ended
	}
	if began.Sub(f.since) < commitWithin {
		return
	}
	f.until = began.Add(lookLasts * max(pause, took))
	f.front = front{past: s.past, at: s.now, waiting: s.now - frontBehind, running: s.now - frontBehind, ahead: math.MaxInt64}
	if s.due != nil {
		f.front.waiting = min(f.front.waiting, *s.due)
	}
	if s.running != nil {
		f.front.running, f.front.ahead = min(f.front.running, *s.running), *s.running
	}
}

// failed ends a look without a result.
func (f *frontier) failed(ended time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looking, f.next = false, ended.Add(lookEvery)
}

// frontOf returns the numbers of a topic's front for a statement. It begins to look for it anew if it is time to.
func (e *Engine) frontOf(t *topic) []int64 {
	front, look := t.frontier.get(time.Now())
	if look && !e.start(func() { e.look(t) }) {
		t.frontier.failed(time.Now())
	}
	return front.numbers()
}

// look looks for the front of a topic.
func (e *Engine) look(t *topic) {
	ctx, cancel := context.WithTimeout(e.life, lookTimeout)
	defer cancel()
	var s seen
	began := time.Now()
	err := e.transact(ctx, "looking where the tasks of "+t.Name+" begin", func(b *pgx.Batch) {
		s = seen{}
		b.Queue(e.sql.Look, t.no).QueryRow(func(row pgx.Row) error { return row.Scan(&s.now, &s.past, &s.due, &s.running) })
	})
	if err != nil {
		t.frontier.failed(time.Now())
		return
	}
	t.frontier.looked(s, began, time.Now())
}
