package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// await waits until a condition holds, and reports whether it did. It gives up after a while,
// or when a gateway or the demo's Redis has ended by itself.
func (d *demo) await(ctx context.Context, holds func() bool) bool {
	for end := time.Now().Add(d.patience()); !holds(); {
		if time.Now().After(end) || d.town.hasDead() || d.redisEnd() != nil || !pause(ctx, 10*time.Millisecond) {
			return false
		}
	}
	return true
}

// pause waits, and reports whether it was not interrupted.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// patience is how long the demo waits for an event due within a lease. It is twice as long,
// since many ends may be held back, and longer for a busy machine.
func (d *demo) patience() time.Duration { return 2*d.cfg.lease + 15*time.Second }

func (d *demo) ids() (ids []string) {
	for _, c := range d.clients {
		ids = append(ids, c.id)
	}
	return ids
}

func here(r *record) bool { return r.here }

// play tells the story, and reports whether it went as it should.
func (d *demo) play(ctx context.Context) (pass bool, err error) {
	for _, scene := range []func(context.Context) error{d.come, d.kill, d.shutDown, d.kick} {
		if err := scene(ctx); err != nil {
			if ctx.Err() == nil {
				d.say("verdict fail: %v", err)
				d.complain()
			}
			return false, err
		}
	}
	if pass, err = d.compare(ctx); !pass && ctx.Err() == nil {
		d.complain()
	}
	return pass, err
}

// redisEnd returns how the demo's own Redis has ended, or nil.
func (d *demo) redisEnd() error {
	if d.redis == nil {
		return nil
	}
	return d.redis.Err()
}

// complain says the likely reason for a failure: the end of Redis, or the gateways'
// complaints.
func (d *demo) complain() {
	if err := d.redisEnd(); err != nil {
		d.say("Redis: %v", err)
	}
	for _, n := range d.town.all() {
		state, _ := n.now()
		if words := n.complaint(); words != "" || state == died {
			d.say("%s (%s) says: %s", n.name, state, cmp.Or(words, "nothing"))
		}
	}
}

// come brings all clients online.
func (d *demo) come(ctx context.Context) error {
	d.connect()
	ids := d.ids()
	if !d.await(ctx, func() bool { return d.ledger.count(ids, here) == len(ids) }) {
		return fmt.Errorf("of %d sessions only %d are online", len(ids), d.ledger.count(ids, here))
	}
	online, err := d.watch.Count(ctx)
	if err != nil {
		return err
	}
	d.say("%d sessions are online, a third at each node", online)
	if !pause(ctx, d.cfg.renew+time.Second) {
		return context.Cause(ctx)
	}
	renewals := uint64(0)
	for _, n := range d.town.all() {
		_, figures := n.now()
		renewals += figures.Renewals
	}
	d.say("heartbeats go to the nodes only; Redis was asked for %d renewals so far, in batches", renewals)
	return nil
}

// kill kills a node. Every other of its clients stays away.
func (d *demo) kill(ctx context.Context) error {
	victim := d.town.all()[1]
	stay, back := d.split(victim.name)
	began := time.Now()
	victim.crash()
	d.say("%s is killed (SIGKILL): the connections of %d sessions are reset; %d clients come back, %d stay away",
		victim.name, len(stay)+len(back), len(back), len(stay))
	elsewhere := func(r *record) bool { return r.here && r.node != victim.name }
	if !d.await(ctx, func() bool { return d.ledger.count(back, elsewhere) == len(back) }) {
		return fmt.Errorf("of %d clients only %d came back", len(back), d.ledger.count(back, elsewhere))
	}
	d.say("%d are online elsewhere, after %s; %d offlines were told of them", len(back), seconds(time.Since(began)), d.ledger.count(back, toldEver))
	if !d.await(ctx, func() bool { return d.ledger.count(stay, (*record).ended) == len(stay) }) {
		d.say("only %d of the %d who stay away were told to be offline", d.ledger.count(stay, (*record).ended), len(stay))
		return nil // the verdict says so
	}
	first, last := d.ledger.heard(stay)
	d.say("%d are offline, %d of them told once only, between %s and %s after the kill (the lease is %v); %d offlines were told of the others",
		len(stay), d.ledger.count(stay, toldOnce), seconds(first.Sub(began)), seconds(last.Sub(began)), d.cfg.lease, d.ledger.count(back, toldEver))
	return nil
}

func toldEver(r *record) bool { return len(r.offlines) > 0 }

func toldOnce(r *record) bool { return r.ended() && r.offlines[r.epoch].times == 1 }

func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }

// split divides the clients of a node: half of them stay away when it dies, half come back.
func (d *demo) split(node string) (stay, back []string) {
	byID := make(map[string]*client)
	for _, c := range d.clients {
		byID[c.id] = c
	}
	for i, id := range d.ledger.at(node) {
		if i%2 == 0 {
			back = append(back, id)
			continue
		}
		stay = append(stay, id)
		byID[id].away.Store(true)
		d.ledger.expect(id, "expired")
	}
	return stay, back
}

// shutDown starts another node, and then lets one leave its sessions to the others.
func (d *demo) shutDown(ctx context.Context) error {
	if err := d.addNode(ctx, 4); err != nil {
		return err
	}
	leaver := d.town.all()[2]
	ids := d.ledger.at(leaver.name)
	began := time.Now()
	d.say("%s is shut down (SIGTERM) with %d sessions", leaver.name, len(ids))
	if err := leaver.drain(); err != nil {
		return err
	}
	elsewhere := func(r *record) bool { return r.here && r.node != leaver.name }
	if !d.await(ctx, func() bool { return d.ledger.count(ids, elsewhere) == len(ids) }) {
		return fmt.Errorf("of %d clients only %d came back", len(ids), d.ledger.count(ids, elsewhere))
	}
	resumed := d.ledger.count(ids, func(r *record) bool { return r.kind == "resumed" })
	d.say("%d are online elsewhere, after %s; %d of them were resumed", len(ids), seconds(time.Since(began)), resumed)
	if resumed != len(ids) {
		return errors.New("not all that were drained were resumed")
	}
	return nil
}

// kick kicks a session. Then it waits until no other session can be resumed any more.
func (d *demo) kick(ctx context.Context) error {
	window := time.Now().Add(d.cfg.lease + time.Second)
	somebody := d.ledger.at(d.town.all()[0].name)[:1]
	d.ledger.expect(somebody[0], "kicked")
	if err := d.watch.Kick(ctx, somebody[0]); err != nil {
		return err
	}
	if d.await(ctx, func() bool { return d.ledger.count(somebody, (*record).ended) == 1 }) {
		d.say("%s is kicked, from outside: its connection is closed, and it is offline", somebody[0])
	}
	if !pause(ctx, time.Until(window)) {
		return context.Cause(ctx)
	}
	return nil
}

// compare says the verdict.
func (d *demo) compare(ctx context.Context) (pass bool, err error) {
	v := d.ledger.judge()
	wrongly, err := d.misplaced(ctx)
	if err != nil {
		return false, err
	}
	v.Wrong += wrongly
	word := "fail"
	if v.pass() {
		word = "pass"
	}
	d.say("verdict %s: %d sessions; offlines: expected %d, seen %d, wrong %d, lost %d, told again %d, of older epochs %d; absent %d",
		word, v.Sessions, v.Expected, v.Seen, v.Wrong, v.Lost, v.Again, v.Older, v.Absent)
	return v.pass(), nil
}

// misplaced returns how many sessions have another place in Redis than in fact.
func (d *demo) misplaced(ctx context.Context) (wrong int, err error) {
	ids := d.ids()
	all, err := d.watch.LookupAll(ctx, ids)
	if err != nil {
		return 0, err
	}
	d.ledger.mu.Lock()
	defer d.ledger.mu.Unlock()
	for i, where := range all {
		r := d.ledger.of(ids[i])
		if r.here && (where.Node != r.node || where.Epoch != r.epoch) || !r.here && where.Epoch != 0 {
			wrong++
		}
	}
	return wrong, nil
}
