package keepalive

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// SetKey counts the connection for a key that its program learns later than its address: the user, say, after a login. From
// then on it counts with the other connections of that key, which may have Room.MaxPerUser, and no longer for its address.
// Another key takes the place of the one before, the same key again changes nothing, and the empty key gives the
// connection back to its address. The keys of SetKey are no addresses: a user named "192.0.2.1" counts apart.
//
// If the key has all of its connections already, SetKey returns an error that wraps [ReasonFull], and names the key and the
// limit. Then nothing has changed: the program says a last word, and calls Close with ReasonFull, or lets the
// connection stay as it is. With FullEvict one of the idlest connections with the key makes room: the idlest of all, or of 64
// if there are more. It must have been silent for Room.MinIdle and not be held, and it gets its farewell and [ReasonEvicted].
// If it turns out to be alive after all, the next one goes in its place, and if there is none, the Keeper closes this one
// with ReasonFull. A key never has more connections that stay, unless the limit becomes a lower one, or with Closing.DryRun,
// which closes none of them.
//
// SetKey returns [ErrNotGuarded] after the end of the connection, or if the Keeper is just closing it. A drain changes
// nothing about it. It does not wait, takes one lock of the Keeper, and is no sign of life.
func (g *Guard) SetKey(key string) error {
	if !g.isOpen() {
		return ErrNotGuarded
	}
	k := g.keeper
	p := k.policy.Load()
	var err error
	if key != "" {
		err = k.shares.joinGroup(g, key, p)
	} else {
		err = k.shares.leaveGroup(g, p.Room.MaxPerKey)
	}
	if err != nil && err != ErrNotGuarded { //nolint:errorlint // it is either
		k.counts.refusedPerUser.Add(1)
		k.warnFull()
	}
	return err
}

// maxPerUser returns what MaxPerUser means, or 0 for any number.
func (r *Room) maxPerUser() int { return cmp.Or(r.MaxPerUser, r.MaxPerKey) }

// overLimit is the error for a key with most connections.
func overLimit(key string, most int) error {
	return fmt.Errorf("%w with the key %.100q, which may have %d", ReasonFull, key, most)
}

// searchMembers is how many members of a group are looked at to evict one.
const searchMembers = 64

// group has the connections of a key of SetKey. shares.mu guards it and its members.
//
// A member that has to make room counts until its end, and its newcomer counts as well. So there are at most as many members
// as there may be, and one more for each that leaves. If such a member turns out to stay, its newcomer has no place:
//
//	a group of 2    {a b}           both stay
//	c comes         {a→c b c}       a leaves for c
//	a has ended     {b c}
//	or a is heard   {a b→c c}       b leaves for c instead
//	and b, too      {a b c→c}       c is closed
type group struct {
	key     string
	members []*member
	leaving int // members with a newcomer
}

// member is what a connection counts for: its place in a group, or, without a group, the address that it shares with others.
type member struct {
	guard    *Guard  // nil for an address
	group    *group  // nil for an address
	address  string  // or the one to count for after the group
	conns    int     // of the address
	newcomer *member // for which this one has to leave; itself, if it has no place after all; or nil
	place    int32   // in group.members, or gone
	tries    int32   // how many had to leave for this one, and stayed
}

const gone = -1 // a place

// key returns the key of SetKey, or "".
func (m *member) key() string {
	if m == nil || m.group == nil {
		return ""
	}
	return m.group.key
}

// member returns what the connection counts for, or nil. It changes with shares.mu held only, but for the end of the connection:
// leaveKeeper makes it nil, and then countFor reports false.
func (g *Guard) member() *member {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r := g.rare.Load(); r != nil {
		return r.member
	}
	return nil
}

// countFor makes the connection count for m. It returns what it counted for before, and reports false if the Keeper does not
// keep the connection any more. shares.mu must be held.
func (g *Guard) countFor(m *member) (before *member, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isOpen() || g.reason() != 0 {
		return nil, false
	}
	if before = g.setMember(m); before != nil && before.newcomer != nil {
		g.rare.Load().state.Evicted = false // it would have made room for the key before
	}
	return before, true
}

// setMember notes what the connection counts for, and returns what it counted for before. mu must be held.
func (g *Guard) setMember(m *member) (before *member) {
	if m != nil {
		g.makeRare()
	}
	if r := g.rare.Load(); r != nil {
		before, r.member = r.member, m
	}
	return before
}

// joinGroup moves a connection to the group of a key.
func (s *shares) joinGroup(g *Guard, key string, p *policy) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	into, most := s.groups.Get(key), p.Room.maxPerUser()
	if m := g.member(); m != nil && into != nil && m.group == into {
		return nil
	}
	var leave []*member
	if into == nil {
		into = &group{key: strings.Clone(key)} // it may be a part of much more
	} else if over := into.over(most); over > 0 {
		if p.Closing.DryRun { // the others would have left before
			over = 1
		}
		if leave = into.idlest(over, p); len(leave) < over {
			return overLimit(key, most)
		}
	}
	m := &member{guard: g, group: into, place: int32(len(into.members))}
	before, ok := g.countFor(m)
	if !ok {
		return ErrNotGuarded
	}
	if into.members == nil {
		s.groups.Set(into.key, into)
	}
	into.members = append(into.members, m)
	if before != nil {
		m.address = before.address
	}
	s.remove(before)
	for _, idle := range leave {
		if p.Closing.DryRun {
			g.keeper.counts.dry[ReasonEvicted].Add(1)
			continue
		}
		idle.leaveFor(m)
	}
	return nil
}

// leaveGroup gives a connection back to its address, or to nothing without a limit.
func (s *shares) leaveGroup(g *Guard, most int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := g.member()
	if m == nil || m.group == nil {
		return nil
	}
	address := m.address
	if most == 0 {
		address = ""
	}
	err := s.toAddress(g, address, most)
	if err == errPerKey { //nolint:errorlint // it is either
		return overLimit(address, most)
	}
	return err
}

// remove takes a connection off the count of its address, or out of its group. A nil member is fine. It panics if the address
// has no connections left, or if m is of other shares: otherwise the limit would silently be another one from then on.
// s.mu must be held.
func (s *shares) remove(m *member) {
	if m == nil {
		return
	}
	from := m.group
	if from == nil {
		if s.addresses.Get(m.address) != m {
			panic(fmt.Sprintf("keepalive: a share of key %q was given back that nobody has", m.address))
		}
		if m.conns--; m.conns == 0 {
			s.addresses.Delete(m.address)
		}
		return
	}
	end := len(from.members) - 1
	last := from.members[end]
	from.members[m.place], last.place = last, m.place
	from.members[end] = nil
	from.members = from.members[:end]
	if cap(from.members) > searchMembers && end < cap(from.members)/4 {
		from.members = slices.Clone(from.members)
	}
	if m.place = gone; m.newcomer != nil {
		from.leaving--
	}
	if end == 0 {
		s.groups.Delete(from.key)
	}
}

// over returns how many members have to leave for one more, which may be more than one if the limit has become a lower one.
func (q *group) over(most int) int {
	if most == 0 || len(q.members) < most {
		return 0
	}
	return max(1, len(q.members)+1-q.leaving-most)
}

// idlest returns some members to make room, the idlest first, or fewer if there are not as many. The others may not be
// among them.
func (q *group) idlest(n int, p *policy, others ...*member) []*member {
	if p.Room.Full != FullEvict || n > searchMembers {
		return nil
	}
	type idler struct {
		*member
		touched rules.Time
	}
	var found []idler
	latest := q.members[0].guard.keeper.now().Add(-p.rules.EvictIdle)
	looks := min(searchMembers, len(q.members))
	for from, i := rand.IntN(len(q.members)), 0; i < looks; i++ {
		m := q.members[(from+i*len(q.members)/looks)%len(q.members)]
		if at, _ := m.guard.timer.Touched(); rules.Time(at) <= latest && m.newcomer == nil && !slices.Contains(others, m) && m.guard.mayMakeRoom() {
			found = append(found, idler{m, rules.Time(at)})
		}
	}
	slices.SortFunc(found, func(a, b idler) int { return cmp.Compare(a.touched, b.touched) })
	var leave []*member
	for _, m := range found[:min(n, len(found))] {
		leave = append(leave, m.member)
	}
	return leave
}

// mayMakeRoom reports whether the connection is not held, and not leaving.
func (g *Guard) mayMakeRoom() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.state()
	return g.isOpen() && g.reason() == 0 && s.Holds == 0 && s.Doom.Why == 0
}

// leaveFor makes a member leave for a newcomer, unless it is heard meanwhile.
func (m *member) leaveFor(newcomer *member) {
	m.newcomer = newcomer
	m.group.leaving++
	m.guard.decideSoon(func(s *rules.State) { s.Evicted = true })
}

// stays is called after a decision on a connection that was to make room. If it stays, another one of its group has to leave,
// or its newcomer.
func (s *shares) stays(g *Guard, p *policy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := g.member()
	if m == nil || m.newcomer == nil || m.newcomer == m || !g.isSpared() {
		return
	}
	newcomer, q := m.newcomer, m.group
	m.newcomer = nil
	q.leaving--
	most := p.Room.maxPerUser()
	if most == 0 || len(q.members)-q.leaving <= most || newcomer.place == gone || newcomer.newcomer == newcomer || p.Closing.DryRun {
		return
	}
	if newcomer.tries++; newcomer.tries < searchMembers { // a program that does not read spares all
		if next := q.idlest(1, p, m, newcomer); len(next) > 0 {
			next[0].leaveFor(newcomer)
			return
		}
	}
	if newcomer.newcomer == nil {
		q.leaving++
	}
	newcomer.newcomer = newcomer
	newcomer.guard.condemn(ReasonFull)
}

// isSpared reports whether the connection is not to make room any more, and stays.
func (g *Guard) isSpared() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, running := g.timer.Value()
	return running && g.reason() == 0 && !g.state().Evicted
}
