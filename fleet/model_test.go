package fleet

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// model is what the scripts do to a slot, written anew in Go: the reference for them, and what
// the tests of Node have in place of Redis.
type model struct {
	now    int64 // the server's clock, in microseconds
	server string

	rules         // of whoever calls
	today, before rules
	day           int64

	resume int64 // ms
	share  float64
	lazy   bool // looking for a dead node's sessions takes two steps

	leases  map[string]int64
	owners  map[string]value
	records map[string]record
	ends    map[string]modelEnd

	nodes map[incarnation]int64
	terms map[incarnation]modelTerm
	dead  map[incarnation]modelDead
	marks map[incarnation]int64

	made                             bool
	last, first                      int64 // epochs
	whose                            string
	lostFrom, lostTo                 int64
	swept, hold, pass, window, ended int64

	nodeHold, nodePass, nodeWindow, buried int64

	sent []modelNews
}

// rules are what a node goes by, in ms.
type rules struct{ lease, renew, nodeLease, beat int64 }

func rulesOf(cfg Config) rules {
	return rules{millis(cfg.Lease), millis(cfg.Renew), millis(cfg.NodeLease), millis(cfg.shortest())}
}

func (r rules) wider(other rules) rules {
	return rules{max(r.lease, other.lease), min(r.renew, other.renew), max(r.nodeLease, other.nodeLease), min(r.beat, other.beat)}
}

type modelTerm struct{ term, lease int64 }

type modelEnd struct {
	event
	at int64
}

type modelDead struct {
	seen   int64
	walked bool // by a first step
}

type modelNews struct {
	to string
	news
}

func newModel(cfg Config) *model {
	m := &model{
		now: 1_800_000_000_000_000, server: "a", share: max(cfg.MaxExpire, 0),
		rules: rulesOf(cfg), resume: millis(cfg.Resume),
	}
	m.lose()
	return m
}

// lose is what a restart without data does.
func (m *model) lose() {
	m.leases, m.owners = map[string]int64{}, map[string]value{}
	m.records, m.ends = map[string]record{}, map[string]modelEnd{}
	m.nodes, m.terms, m.dead = map[incarnation]int64{}, map[incarnation]modelTerm{}, map[incarnation]modelDead{}
	m.marks = map[incarnation]int64{}
	m.nodeHold, m.nodePass, m.nodeWindow, m.buried = 0, 0, 0, 0
	m.made, m.last, m.first, m.whose = false, 0, 0, ""
	m.today, m.before, m.day = rules{}, rules{}, 0
	m.lostFrom, m.lostTo, m.swept, m.hold, m.pass, m.window, m.ended = 0, 0, 0, 0, 0, 0, 0
}

func (m *model) clone() *model {
	c := *m
	c.leases, c.owners = maps.Clone(m.leases), maps.Clone(m.owners)
	c.records, c.ends = maps.Clone(m.records), maps.Clone(m.ends)
	c.nodes, c.terms, c.dead = maps.Clone(m.nodes), maps.Clone(m.terms), maps.Clone(m.dead)
	c.marks = maps.Clone(m.marks)
	c.sent = slices.Clone(m.sent)
	return &c
}

// failOver is a failover to a replica with the state of older.
func (m *model) failOver(older *model, server string) {
	now, sent, own := m.now, m.sent, m.rules
	*m = *older.clone()
	m.now, m.server, m.sent, m.rules = now, server, sent, own
}

func (m *model) ms() int64     { return m.now / 1000 }
func (m *model) ceilMS() int64 { return (m.now + 999) / 1000 }

// agree returns what a slot goes by.
func (m *model) agree() rules {
	switch day := m.ms() / 86_400_000; {
	case m.today == rules{}:
		m.today, m.before, m.day = m.rules, m.rules, day
	case m.day != day:
		m.today, m.before, m.day = m.rules, m.today, day
	default:
		m.today = m.today.wider(m.rules)
	}
	return m.today.wider(m.before)
}

// begin is called by what gives epochs and by what expires.
func (m *model) begin() (by rules, other bool) {
	by = m.agree()
	switch {
	case !m.made:
		m.made, m.last, m.first, m.whose, m.swept = true, m.now-1, m.now, m.server, m.ms()
	case m.whose != m.server:
		if m.now-m.lostTo > by.lease*1000 {
			m.lostFrom = m.last
		}
		if m.now <= m.last { // the clock was set back
			m.last += 60_000_000
		}
		m.whose, m.lostTo = m.server, max(m.now, m.last)
		m.holdNow(by.lease)
		if by.nodeLease > 0 {
			for by, dead := range m.dead {
				m.dead[by] = modelDead{seen: dead.seen}
			}
			clear(m.terms)
			m.holdNodes(by.nodeLease)
		}
		return by, true
	}
	return by, false
}

func (m *model) holdNow(lease int64)   { m.hold, m.pass = m.ms()+lease, m.ms()+2*lease }
func (m *model) holdNodes(lease int64) { m.nodeHold, m.nodePass = m.ms()+lease, m.ms()+2*lease }

// extendNode is what a beat does, and each registration. It returns the node's term.
func (m *model) extendNode(by incarnation) int64 {
	if m.nodeLease == 0 {
		return 0
	}
	m.begin()
	m.nodes[by] = m.ceilMS() + m.nodeLease
	if _, known := m.terms[by]; !known {
		m.last = max(m.last+1, m.now)
		m.terms[by] = modelTerm{m.last, m.nodeLease}
		delete(m.dead, by)
	}
	return m.terms[by].term
}

func (m *model) goodbye(by incarnation) {
	delete(m.nodes, by)
	delete(m.terms, by)
}

func (m *model) register(by incarnation, node string, ask registration) registered {
	m.begin()
	term := m.extendNode(by)
	old, there := m.owners[ask.id]
	if there && ask.before != nil && old.token.epoch() >= ask.before.epoch() {
		return registered{kind: kindRefused, token: newToken(0, by), prev: old, whose: m.records[ask.id], term: term}
	}
	answer := registered{kind: kindNew, prev: old, whose: m.records[ask.id], term: term}
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

func (m *model) unregister(c claim, reason byte, resume int64) verdict {
	owner := m.owners[c.id]
	if owner.token != c.token || (owner.state != stateOnline && owner.state != stateKicked) {
		return m.refusal(c)
	}
	switch {
	case owner.state == stateKicked:
		m.finish(c.id, 'k', m.ms())
	case resume == 0:
		m.finish(c.id, reason, m.ms())
	default:
		rec := m.records[c.id]
		rec.lease = resume
		m.records[c.id], m.owners[c.id], m.leases[c.id] = rec, value{c.token, stateDetached}, m.ms()+resume
	}
	return held
}

func (m *model) unregisterLost(node string, lost registration, reason byte, resume int64) verdict {
	m.begin()
	c := claim{lost.id, *lost.before}
	if v := m.refusal(c); v != unknown {
		return v
	}
	delete(m.ends, c.id)
	m.records[c.id] = record{c.token.epoch() / 1000, resume, node, lost.meta}
	m.owners[c.id], m.leases[c.id] = value{c.token, stateDetached}, m.ms()+resume
	if resume == 0 {
		m.finish(c.id, reason, m.ms())
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

// member returns a session's member in the sorted set of leases: see head.lua.
func (m *model) member(id string) string {
	if owner := m.owners[id]; owner.state == stateOnline {
		return string(owner.token[:]) + id
	}
	return string(make([]byte, len(token{}))) + id
}

// byTime returns the ids due at now, in the order of a sorted set with their members.
func byTime(times map[string]int64, now int64, member func(id string) string) (ids []string) {
	for id, at := range times {
		if at <= now {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(cmp.Compare(times[a], times[b]), strings.Compare(member(a), member(b)))
	})
	return ids
}

// sweep is a sweep by a node, with its mark.
func (m *model) sweep(node incarnation, mark int64, limit int, outcomes []told) swept {
	result := swept{held: map[string]int{}}
	for _, t := range outcomes {
		m.settle(t)
	}
	if limit < 0 || !m.made {
		return result
	}
	swept, now := m.swept, m.ms()
	hold, pass := m.hold, m.pass
	by, other := m.begin()
	result.beat = time.Duration(by.beat) * time.Millisecond
	why := ""
	switch {
	case now-swept > by.renew:
		why = "gap"
	case swept-now > 1000:
		why = "clock"
	case other:
		why = "server"
	}
	if why != "" || hold > now+by.lease {
		m.holdNow(by.lease)
		hold, pass = m.hold, m.pass
	}
	nodeHold, nodePass := m.nodeHold, m.nodePass
	if by.nodeLease > 0 && (why != "" || now-swept > by.beat || nodeHold > now+by.nodeLease) {
		if now-swept > by.beat && why == "" {
			why = "beats"
		}
		m.holdNodes(by.nodeLease)
		nodeHold, nodePass = m.nodeHold, m.nodePass
	}
	if float64(now-swept) > float64(by.beat)/8 || swept-now > 1000 {
		m.swept = now
	}
	for id, at := range m.leases {
		if at > now+max(m.lease, m.resume)+1 {
			m.leases[id] = min(at, now+m.records[id].lease+1)
		}
	}
	for id, end := range m.ends {
		end.at = min(end.at, now+max(longestRetry, delivery).Milliseconds()+1)
		m.ends[id] = end
	}
	if by.nodeLease > 0 {
		for node, end := range m.nodes {
			if end > now+by.nodeLease+1 {
				m.nodes[node] = min(end, now+m.leaseOf(node, by)+1)
			}
		}
		if nodeHold <= now {
			why = m.bury(by, nodePass, why)
		}
		if m.nodeHold <= now && limit > 0 {
			result.more = m.walk()
		}
	}
	over := byTime(m.leases, now, m.member)
	if len(over) > 0 && hold <= now && limit > 0 {
		why = m.expire(by, over, limit, pass, why)
	}
	if why != "" {
		result.held[why]++
		result.due = len(over)
		until := m.hold
		if why == "beats" || why == "nodes" {
			until = m.nodeHold
		}
		result.silence = time.Duration(until-now) * time.Millisecond
	}
	if taken := m.marks[node]; mark != certain && taken != mark && taken > now {
		m.restore(taken)
		delete(m.marks, node)
	}
	times := map[string]int64{}
	for id, end := range m.ends {
		times[id] = end.at
	}
	waiting := byTime(times, now, func(id string) string { return id })
	for _, id := range waiting[:min(len(waiting), limit)] {
		end := m.ends[id]
		end.attempts++
		end.at = now + delivery.Milliseconds()
		m.ends[id] = end
		result.events = append(result.events, end.event)
	}
	if len(result.events) > 0 {
		maps.DeleteFunc(m.marks, func(_ incarnation, until int64) bool { return until <= now })
		m.marks[node] = now + delivery.Milliseconds()
	}
	return result
}

// restore has what was taken until a time be due, as if it had not been taken.
func (m *model) restore(until int64) {
	for id, end := range m.ends {
		if end.at == until {
			end.at, end.attempts = m.ms(), max(end.attempts-1, 0)
			m.ends[id] = end
		}
	}
}

// leaseOf is the length of a node's lease, if known, and otherwise that of the rules.
func (m *model) leaseOf(node incarnation, by rules) int64 {
	if term, known := m.terms[node]; known {
		return term.lease
	}
	return by.nodeLease
}

// bury takes nodes for dead when their lease is over.
func (m *model) bury(rules rules, pass int64, why string) string {
	now := m.ms()
	var over []incarnation
	for by, end := range m.nodes {
		if end <= now {
			over = append(over, by)
		}
	}
	if len(over) == 0 {
		return why
	}
	window, buried := m.nodeWindow, m.buried
	if now-window > rules.nodeLease || window > now {
		window, buried = now, 0
	}
	count, all := int64(len(over))+buried, int64(len(m.nodes))+buried
	if m.share > 0 && all > 1 && float64(count) > m.share*float64(all) && pass <= now {
		m.holdNodes(rules.nodeLease)
		return "nodes"
	}
	for _, by := range over {
		m.dead[by] = modelDead{seen: m.nodes[by] - m.leaseOf(by, rules)}
		m.goodbye(by)
	}
	m.nodeWindow, m.buried = window, count
	return why
}

// walk ends the sessions of dead nodes.
func (m *model) walk() (more bool) {
	for by, dead := range m.dead {
		if m.lazy && !dead.walked {
			dead.walked, more = true, true
			m.dead[by] = dead
			continue
		}
		for id, owner := range m.owners {
			switch {
			case incarnation(owner.token[epochBytes:]) != by:
			case owner.state == stateOnline:
				m.finish(id, 'e', dead.seen)
			case owner.state == stateKicked:
				m.finish(id, 'k', dead.seen)
			}
		}
		delete(m.dead, by)
	}
	return more
}

func (m *model) expire(by rules, over []string, limit int, pass int64, why string) string {
	now := m.ms()
	window, expired := m.window, m.ended
	if now-window > by.lease || window > now {
		window, expired = now, 0
	}
	all := float64(int64(len(m.leases)) + expired)
	dead := 0 // of those that were not detached
	for _, id := range over {
		if m.owners[id].state != stateDetached {
			dead++
		}
	}
	if m.share > 0 && float64(int64(dead)+expired) > m.share*all && dead >= heldLeast && pass <= now {
		m.holdNow(by.lease)
		return "share"
	}
	over = over[:min(len(over), limit)]
	for _, id := range over {
		reason := byte('e')
		if state := m.owners[id].state; state != stateOnline {
			reason = state[0]
		}
		if reason != 'd' {
			expired++
		}
		m.finish(id, reason, m.leases[id]-m.records[id].lease)
	}
	m.window, m.ended = window, expired
	return why
}

var errAway = errors.New("away")

// fake is a store on a model shared by several nodes: Redis as a node sees it.
type fake struct {
	*shared
	by   incarnation
	node string
	hear chan news
	rules

	cut  bool // from Redis, guarded by shared.mu
	deaf bool // to answers to sweep
	mark mark
	full bool          // it can't unregister, either
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
	f := &fake{shared: s, node: node, rules: s.model.rules, hear: make(chan news, 10000)}
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
	m.rules = f.rules
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

func (f *fake) unregister(_ context.Context, claims []claim, reason byte, resume time.Duration) ([]verdict, error) {
	verdicts, full := make([]verdict, len(claims)), false
	err := f.do(func(m *model) {
		if full = f.full; full {
			return
		}
		for i, c := range claims {
			verdicts[i] = m.unregister(c, reason, millis(resume))
		}
	})
	if full {
		err = errAway
	}
	return verdicts, err
}

func (f *fake) unregisterLost(_ context.Context, lost []registration, reason byte, resume time.Duration) ([]verdict, error) {
	verdicts := make([]verdict, len(lost))
	return verdicts, f.do(func(m *model) {
		for i, l := range lost {
			verdicts[i] = m.unregisterLost(f.node, l, reason, millis(resume))
		}
	})
}

func (f *fake) sweep(_ context.Context, limit int, outcomes []told) (result swept, err error) {
	deaf := false
	err = f.do(func(m *model) {
		result, deaf = m.sweep(f.by, f.mark.say(), limit, outcomes), f.deaf
		if len(result.events) > 0 && !deaf {
			f.mark.took(m.ms())
		}
	})
	if err != nil || deaf {
		f.mark.missed()
		return swept{open: outcomes}, errAway
	}
	return result, nil
}

func (f *fake) confirm(context.Context) error { return f.do(func(*model) {}) }

func (f *fake) slots() int { return 1 }

func (f *fake) beat(context.Context) ([]int64, error) {
	terms := []int64{0}
	return terms, f.do(func(m *model) { terms[0] = m.extendNode(f.by) })
}

func (f *fake) goodbye(context.Context) error {
	return f.do(func(m *model) { m.goodbye(f.by) })
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

func (f *fake) nodes(context.Context) (nodes int, err error) {
	err = f.do(func(m *model) {
		for _, end := range m.nodes {
			if end > m.ms() {
				nodes++
			}
		}
	})
	return nodes, err
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
