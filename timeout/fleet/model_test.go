package fleet

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// model is what the scripts do to a slot, written anew in Go: the reference for them, and what
// the tests of Node have in place of Redis.
type model struct {
	now    int64 // the server's clock, in microseconds
	server string

	lease, renew, resume int64 // ms
	share                float64

	leases  map[string]int64
	owners  map[string]value
	records map[string]record
	ends    map[string]modelEnd

	made                             bool
	last, first                      int64 // epochs
	whose                            string
	lostFrom, lostTo                 int64
	swept, hold, pass, window, ended int64

	sent []modelNews
}

type modelEnd struct {
	event
	at int64
}

type modelNews struct {
	to string
	news
}

func newModel(cfg Config) *model {
	m := &model{
		now: 1_800_000_000_000_000, server: "a", share: max(cfg.MaxExpire, 0),
		lease: millis(cfg.Lease), renew: millis(cfg.Renew), resume: millis(cfg.Resume),
	}
	m.lose()
	return m
}

// lose is what a restart without data does.
func (m *model) lose() {
	m.leases, m.owners = map[string]int64{}, map[string]value{}
	m.records, m.ends = map[string]record{}, map[string]modelEnd{}
	m.made, m.last, m.first, m.whose = false, 0, 0, ""
	m.lostFrom, m.lostTo, m.swept, m.hold, m.pass, m.window, m.ended = 0, 0, 0, 0, 0, 0, 0
}

func (m *model) clone() *model {
	c := *m
	c.leases, c.owners = maps.Clone(m.leases), maps.Clone(m.owners)
	c.records, c.ends = maps.Clone(m.records), maps.Clone(m.ends)
	c.sent = slices.Clone(m.sent)
	return &c
}

// failOver is what a failover to a replica does that has what older has.
func (m *model) failOver(older *model, server string) {
	now, sent := m.now, m.sent
	*m = *older.clone()
	m.now, m.server, m.sent = now, server, sent
}

func (m *model) ms() int64     { return m.now / 1000 }
func (m *model) ceilMS() int64 { return (m.now + 999) / 1000 }

// begin is called by what gives epochs and by what expires.
func (m *model) begin() (other bool) {
	switch {
	case !m.made:
		m.made, m.last, m.first, m.whose, m.swept = true, m.now-1, m.now, m.server, m.ms()
	case m.whose != m.server:
		m.whose, m.lostFrom, m.lostTo = m.server, m.last, m.now
		m.holdNow()
		return true
	}
	return false
}

func (m *model) holdNow() { m.hold, m.pass = m.ms()+m.lease, m.ms()+2*m.lease }

func (m *model) register(by incarnation, node string, ask registration) registered {
	m.begin()
	old, there := m.owners[ask.id]
	if there && ask.before != nil && old.token.epoch() >= ask.before.epoch() {
		return registered{kind: kindRefused, token: newToken(0, by), prev: old, whose: m.records[ask.id]}
	}
	answer := registered{kind: kindNew, prev: old, whose: m.records[ask.id]}
	since := m.ms()
	switch {
	case there && old.state == stateDetached:
		answer.kind, since = kindResumed, m.records[ask.id].since
	case there && old.state == stateEnded:
		answer.kind = kindEnded
		delete(m.ends, ask.id)
	case there:
		answer.kind = kindMoved
		if incarnation(old.token[epochBytes:]) != by {
			m.sent = append(m.sent, modelNews{m.records[ask.id].node, news{'s', claim{ask.id, old.token}}})
		}
	}
	m.last = max(m.last+1, m.now)
	answer.token = newToken(m.last, by)
	m.owners[ask.id] = value{answer.token, stateOnline}
	m.records[ask.id] = record{since, m.lease, node, ask.meta}
	m.leases[ask.id] = m.ceilMS() + m.lease
	return answer
}

func (m *model) refusal(c claim) verdict {
	owner, there := m.owners[c.id]
	epoch := c.token.epoch()
	switch {
	case there && owner.token == c.token && owner.state == stateKicked:
		return kicked
	case there && owner.token == c.token:
		return ended
	case there && owner.token.epoch() >= epoch:
		return superseded
	case there, !m.made, epoch > m.last, epoch < m.first, epoch > m.lostFrom && epoch <= m.lostTo:
		return unknown
	}
	return ended
}

func (m *model) extend(c claim) verdict {
	if m.owners[c.id] != (value{c.token, stateOnline}) {
		return m.refusal(c)
	}
	m.leases[c.id] = m.ceilMS() + m.lease
	return held
}

func (m *model) unregister(c claim, resume int64) verdict {
	owner := m.owners[c.id]
	if owner.token != c.token || (owner.state != stateOnline && owner.state != stateKicked) {
		return m.refusal(c)
	}
	switch {
	case owner.state == stateKicked:
		m.finish(c.id, 'k', m.ms())
	case resume == 0:
		m.finish(c.id, 'c', m.ms())
	default:
		rec := m.records[c.id]
		rec.lease = resume
		m.records[c.id], m.owners[c.id], m.leases[c.id] = rec, value{c.token, stateDetached}, m.ms()+resume
	}
	return held
}

func (m *model) finish(id string, reason byte, seen int64) {
	owner := m.owners[id]
	m.ends[id] = modelEnd{event{id: id, token: owner.token, reason: reason, seen: seen, record: m.records[id]}, m.ms()}
	m.owners[id] = value{owner.token, stateEnded}
	delete(m.leases, id)
	delete(m.records, id)
}

func (m *model) kick(id string) bool {
	owner, there := m.owners[id]
	switch {
	case !there || owner.state == stateEnded:
		return false
	case owner.state == stateDetached:
		m.finish(id, 'k', m.ms())
	default:
		m.owners[id] = value{owner.token, stateKicked}
		m.sent = append(m.sent, modelNews{m.records[id].node, news{'k', claim{id, owner.token}}})
	}
	return true
}

func (m *model) settle(t told) {
	end, there := m.ends[t.event.id]
	switch {
	case !there || end.token != t.event.token:
	case t.done:
		delete(m.ends, t.event.id)
		if m.owners[t.event.id] == (value{end.token, stateEnded}) {
			delete(m.owners, t.event.id)
		}
	case end.attempts == t.event.attempts:
		end.at = m.ms() + millis(t.after)
		m.ends[t.event.id] = end
	}
}

// byTime returns the ids whose time has come, as a sorted set does.
func byTime(times map[string]int64, now int64) (ids []string) {
	for id, at := range times {
		if at <= now {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		switch {
		case times[a] != times[b] && times[a] < times[b], times[a] == times[b] && a < b:
			return -1
		}
		return 1
	})
	return ids
}

func (m *model) sweep(limit int, outcomes []told) swept {
	result := swept{held: map[string]int{}}
	for _, t := range outcomes {
		m.settle(t)
	}
	if limit == 0 || !m.made {
		return result
	}
	swept, now := m.swept, m.ms()
	hold, pass := m.hold, m.pass
	other := m.begin()
	why := ""
	switch {
	case now-swept > m.renew:
		why = "gap"
	case swept-now > 1000:
		why = "clock"
	case other:
		why = "server"
	}
	if why != "" || hold > now+m.lease {
		m.holdNow()
		hold, pass = m.hold, m.pass
	}
	if float64(now-swept) > float64(m.renew)/8 || swept-now > 1000 {
		m.swept = now
	}
	longest := max(m.lease, m.resume, longestRetry.Milliseconds(), delivery.Milliseconds()) + 1
	for id, at := range m.leases {
		m.leases[id] = min(at, now+longest)
	}
	for id, end := range m.ends {
		end.at = min(end.at, now+longest)
		m.ends[id] = end
	}
	over := byTime(m.leases, now)
	if len(over) > 0 && hold <= now {
		why = m.expire(over, limit, pass, why)
	}
	if why != "" {
		result.held[why]++
		result.due = len(over)
	}
	times := map[string]int64{}
	for id, end := range m.ends {
		times[id] = end.at
	}
	waiting := byTime(times, now)
	for _, id := range waiting[:min(len(waiting), limit)] {
		end := m.ends[id]
		end.attempts++
		end.at = now + delivery.Milliseconds()
		m.ends[id] = end
		result.events = append(result.events, end.event)
	}
	return result
}

func (m *model) expire(over []string, limit int, pass int64, why string) string {
	now := m.ms()
	window, expired := m.window, m.ended
	if now-window > m.lease || window > now {
		window, expired = now, 0
	}
	all := float64(int64(len(m.leases)) + expired)
	if m.share > 0 && float64(int64(len(over))+expired) > m.share*all && len(over) >= heldLeast && pass <= now {
		m.holdNow()
		return "share"
	}
	over = over[:min(len(over), limit)]
	for _, id := range over {
		reason := byte('e')
		if state := m.owners[id].state; state != stateOnline {
			reason = state[0]
		}
		m.finish(id, reason, m.leases[id]-m.records[id].lease)
	}
	m.window, m.ended = window, expired+int64(len(over))
	return why
}

var errAway = errors.New("away")

// fake is a store on a model that several nodes share: Redis as a node sees it.
type fake struct {
	*shared
	by   incarnation
	node string
	hear chan news

	cut  bool          // from Redis, guarded by shared.mu
	slow time.Duration // how late it answers to register, too
}

type shared struct {
	mu    sync.Mutex
	model *model
	began time.Time
	away  bool
	fakes []*fake
}

func newShared(cfg Config) *shared {
	return &shared{model: newModel(cfg.withDefaults()), began: time.Now()}
}

func (s *shared) connect(node string) *fake {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &fake{shared: s, node: node, hear: make(chan news, 10000)}
	f.by[0] = byte(len(s.fakes) + 1)
	s.fakes = append(s.fakes, f)
	return f
}

func (s *shared) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// do does something to the model at the present time, and delivers what it has to say.
func (f *fake) do(change func(m *model)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away || f.cut {
		return errAway
	}
	m := f.model
	m.now = 1_800_000_000_000_000 + time.Since(f.began).Microseconds()
	change(m)
	for _, sent := range m.sent {
		for _, to := range f.fakes {
			if to.node == sent.to && !to.cut {
				to.hear <- sent.news
			}
		}
	}
	m.sent = nil
	return nil
}

func (f *fake) register(_ context.Context, asks []registration) ([]registered, error) {
	answers, late := make([]registered, len(asks)), time.Duration(0)
	err := f.do(func(m *model) {
		for i, ask := range asks {
			answers[i] = m.register(f.by, f.node, ask)
		}
		late = f.slow
	})
	time.Sleep(late)
	return answers, err
}

func (f *fake) extend(_ context.Context, claims []claim) ([]verdict, error) {
	verdicts := make([]verdict, len(claims))
	return verdicts, f.do(func(m *model) {
		for i, c := range claims {
			verdicts[i] = m.extend(c)
		}
	})
}

func (f *fake) unregister(_ context.Context, claims []claim, resume time.Duration) ([]verdict, error) {
	verdicts := make([]verdict, len(claims))
	return verdicts, f.do(func(m *model) {
		for i, c := range claims {
			verdicts[i] = m.unregister(c, millis(resume))
		}
	})
}

func (f *fake) sweep(_ context.Context, limit int, outcomes []told) (result swept, err error) {
	err = f.do(func(m *model) { result = m.sweep(limit, outcomes) })
	return result, err
}

func (f *fake) get(_ context.Context, ids []string) ([]found, error) {
	answers := make([]found, len(ids))
	return answers, f.do(func(m *model) {
		for i, id := range ids {
			owner, there := m.owners[id]
			answers[i] = found{m.ms(), there, owner, m.records[id], m.leases[id]}
		}
	})
}

func (f *fake) kick(_ context.Context, id string) (there bool, err error) {
	err = f.do(func(m *model) { there = m.kick(id) })
	return there, err
}

func (f *fake) count(context.Context) (sessions, waiting int64, err error) {
	err = f.do(func(m *model) { sessions, waiting = int64(len(m.leases)), int64(len(m.ends)) })
	return sessions, waiting, err
}

func (f *fake) listen(ctx context.Context, hear func(news)) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case n := <-f.hear:
			hear(n)
		}
	}
}

func (f *fake) close() error { return nil }
