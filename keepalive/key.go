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

// member is a connection in a group.
type member struct {
	guard    *Guard
	group    *group
	address  string  // the key to count for once it has left the group
	newcomer *member // for which this one has to leave; itself, if it has no place after all; or nil
	place    int32   // in group.members, or gone
	tries    int32   // how many had to leave for this one, and stayed
}

const gone = -1 // a place

// member returns what the connection is in a group, or nil. It changes with shares.mu held only.
func (g *Guard) member() *member {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.extrasNow().member
}

// share returns the share that the connection has, or nil. It changes with shares.mu held only.
func (g *Guard) share() *share {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r := g.rare.Load(); r != nil {
		return r.share
	}
	return nil
}

// key returns the key of the member's group, or "" for nil.
func (m *member) key() string {
	if m == nil {
		return ""
	}
	return m.group.key
}

// countFor makes the connection count for one of the two, or for nothing. It returns what it counted for before, and reports
// false if the Keeper does not keep the connection any more. shares.mu must be held.
func (g *Guard) countFor(m *member, taken *share) (before *member, share *share, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isOpen() || g.reason() != 0 {
		return nil, nil, false
	}
	if before, share = g.counted(m, taken); before != nil && before.newcomer != nil {
		g.rare.Load().state.Evicted = false // it would have made room for the key before
	}
	return before, share, true
}

// counted notes what the connection counts for, and returns what it counted for before. mu must be held.
func (g *Guard) counted(m *member, taken *share) (before *member, share *share) {
	if m != nil || taken != nil {
		g.makeRare()
	}
	if r := g.rare.Load(); r != nil {
		share, r.share = r.share, taken
	}
	if before = g.extrasNow().member; before != m {
		g.extrasLocked().member = m
	}
	return before, share
}

// joinGroup moves a connection to the group of a key.
func (s *shares) joinGroup(g *Guard, key string, p *policy) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	into, most := s.groups.Get(key), p.Room.maxPerUser()
	if m := g.member(); m != nil && m.group == into {
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
	before, share, ok := g.countFor(m, nil)
	if !ok {
		return ErrNotGuarded
	}
	if into.members == nil {
		s.groups.Set(into.key, into)
	}
	into.members = append(into.members, m)
	switch {
	case share != nil:
		m.address = share.key
	case before != nil:
		m.address = before.address
	}
	s.remove(before)
	s.giveBack(share)
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
	if m == nil {
		return nil
	}
	address := m.address
	if most == 0 {
		address = ""
	}
	err := s.countFor(g, address, most)
	if err == errPerKey { //nolint:errorlint // it is either
		return overLimit(address, most)
	}
	return err
}

// remove takes a member out of its group. A nil member is fine. s.mu must be held.
func (s *shares) remove(m *member) {
	if m == nil {
		return
	}
	from := m.group
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
	m.guard.decideSoon(func(r *rare) { r.state.Evicted = true })
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
