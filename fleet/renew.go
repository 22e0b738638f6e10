package fleet

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// renewBatch is how many leases are extended in one round trip.
const renewBatch = 4096

// renewLoop works on a lane: once per tick on due sessions, and at once on urgent ones.
func (n *Node) renewLoop(ctx context.Context, l *lane) {
	ticker := time.NewTicker(n.tick())
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			n.sendRest(l)
			return
		case <-ticker.C:
		case <-l.wake:
		}
		// What could not be done is put behind the rest, and has to wait for the next tick.
		for left := n.renewer.batches(l); left > 0 && ctx.Err() == nil; left-- {
			err := errors.Join(n.sendLeaving(context.Background(), l), n.extendSome(l))
			if err != nil && n.renewer.isSilent(l) {
				break
			}
		}
	}
}

// extendSome extends a batch.
func (n *Node) extendSome(l *lane) error {
	batch := n.renewer.take(l)
	if len(batch) == 0 {
		return nil
	}
	known := n.known() // when a session is extended, its slot may have a newer one
	sent := n.elapsed()
	ctx, cancel := context.WithTimeout(context.Background(), n.cfg.Timeout)
	verdicts, err := n.store.extend(ctx, claimsOf(batch))
	cancel()
	n.stats.failed(err)
	slots := make([]uint16, len(batch))
	var again, lost []*Session
	for i, s := range batch {
		slots[i] = s.slot
		switch verdicts[i] {
		case held:
			n.extended(s, sent, known[s.slot])
		case unknown:
			lost = append(lost, s)
		case 0:
			again = append(again, s)
		case superseded:
			if s.doubted() { // perhaps by itself, see registerAgain
				lost = append(lost, s)
				continue
			}
			n.refused(s, superseded)
		default:
			n.refused(s, verdicts[i])
		}
	}
	n.heard(slots, func(i int) bool { return verdicts[i] != 0 }, err)
	if len(lost) > 0 {
		n.layout.ask() // the server may have lost the number of slots, too
	}
	again = append(again, n.registerAgain(lost)...)
	n.renewer.land(l, again)
	return err
}

// heard notes whether each of the slots has answered. It logs when Redis stops answering, and
// when it answers again.
func (n *Node) heard(slots []uint16, answered func(i int) bool, err error) {
	switch before, now := n.renewer.heard(slots, answered); {
	case now && !before:
		n.cfg.Logger.Warn("fleet: Redis does not answer", "node", n.cfg.Node, "error", err)
	case before && !now:
		n.cfg.Logger.Info("fleet: Redis answers again", "node", n.cfg.Node)
	}
}

func (n *Node) extended(s *Session, sent time.Duration, known uint32) {
	n.stats.renewals.Add(1)
	s.extended(sent, known)
	s.timer.Rearm(n.wheel.Time(0) + n.next()) // no effect if the timer is not due, see push
}

// refused takes away a session when Redis refuses this node's claim.
func (n *Node) refused(s *Session, why verdict) {
	n.stats.refused.Add(1)
	switch why {
	case superseded:
		n.takeAway(s, ReasonMoved, leaveAlone)
	case kicked:
		n.takeAway(s, ReasonKicked, leaveKick)
	default:
		reason := ReasonExpired
		if n.draining.Load() {
			reason = ReasonDraining // and it was detached, just now
		}
		n.takeAway(s, reason, leaveAlone)
	}
}

// registerAgain registers sessions lost by Redis, unless another node has registered them since.
// It returns the sessions to extend at once: their registration failed, or an earlier one had
// succeeded without an answer, or their slot has fallen silent meanwhile.
func (n *Node) registerAgain(lost []*Session) (again []*Session) {
	for lost := range slices.Chunk(lost, batchSize) {
		quiet := n.renewer.quiet()
		lost = slices.DeleteFunc(lost, func(s *Session) bool {
			if quiet[s.slot] { // with it, the others would wait once more
				again = append(again, s)
			}
			return quiet[s.slot]
		})
		asks := make([]registration, len(lost))
		for i, s := range lost {
			c := s.claim()
			asks[i] = registration{id: c.id, meta: s.meta, before: &c.token}
		}
		answers, _ := n.registerNow(asks)
		for i, s := range lost {
			answer, own := answers[i], false
			switch answer.kind {
			case 0:
				s.doubt() // it may have been registered
				again = append(again, s)
				continue
			case kindRefused:
				if own = s.doubted() && n.isOwn(s, answer); !own {
					n.refused(s, superseded)
					continue
				}
				answer.token = answer.prev.token
			}
			if left := s.renewed(answer.token); left != leaveAlone {
				n.leave(s.claim(), s.meta, left)
				continue
			}
			if own { // registered by a call without an answer
				again = append(again, s)
			} else {
				n.extended(s, answer.sent, answer.known)
			}
			n.herald.tell(s.id, func() { n.tellOnline(s, answer, true) })
		}
	}
	return again
}

// isOwn reports whether a session was refused because this node itself has registered it since,
// for this very connection.
func (n *Node) isOwn(s *Session, refused registered) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return refused.prev.token.by() == refused.token.by() && n.sessions.Get(s.id) == s && n.arriving.Get(s.id) == nil
}

// sendLeaving tells Redis of departed sessions. It gives up on a session after the length
// of a lease: the session has expired by then.
func (n *Node) sendLeaving(ctx context.Context, l *lane) (err error) {
	batch := n.renewer.takeLeaving(l)
	for _, how := range []leave{leaveEnd, leaveKick, leaveDetach} {
		part := slices.DeleteFunc(slices.Clone(batch), func(gone leaving) bool { return gone.how != how })
		if len(part) > 0 {
			err = errors.Join(err, n.send(ctx, part, how))
		}
	}
	return err
}

func (n *Node) send(ctx context.Context, part []leaving, how leave) error {
	claims, slots := make([]claim, len(part)), make([]uint16, len(part))
	for i, l := range part {
		claims[i], slots[i] = l.claim, l.slot
	}
	reason, resume := byte('c'), time.Duration(0)
	switch how {
	case leaveKick: // the server may have lost the kick
		reason = 'k'
	case leaveDetach:
		resume = n.cfg.Resume
	}
	ctx, cancel := context.WithTimeout(ctx, n.cfg.Timeout)
	defer cancel()
	verdicts, err := n.unregister(ctx, claims, func(i int) string { return part[i].meta }, reason, resume)
	n.heard(slots, func(i int) bool { return verdicts[i] != 0 }, err)
	r := &n.renewer
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, l := range part {
		if verdicts[i] == 0 && n.elapsed()-l.from < n.cfg.Lease {
			lane := r.of(l.slot)
			lane.leaving = append(lane.leaving, l)
		}
	}
	return err
}

// unregister ends or detaches sessions, those lost by Redis as well: registered again under a new epoch,
// a session could be taken from a node not heard since the loss.
func (n *Node) unregister(ctx context.Context, claims []claim, meta func(i int) string, reason byte, resume time.Duration) ([]verdict, error) {
	verdicts, err := n.store.unregister(ctx, claims, reason, resume)
	var lost []registration
	var items []int
	for i, c := range claims {
		if verdicts[i] == unknown {
			lost, items = append(lost, registration{id: c.id, meta: meta(i), before: &claims[i].token}), append(items, i)
		}
	}
	if len(lost) > 0 {
		n.layout.ask()
		answers, failed := n.store.unregisterLost(ctx, lost, reason, resume)
		for j, i := range items {
			verdicts[i] = answers[j]
		}
		err = errors.Join(err, failed)
	}
	n.stats.failed(err)
	return verdicts, err
}

// sendRest tells Redis of the sessions departed just before the end of the node. It takes at most
// Config.Timeout in all.
func (n *Node) sendRest(l *lane) {
	ctx, cancel := context.WithTimeout(context.Background(), n.cfg.Timeout)
	defer cancel()
	for left := n.renewer.batches(l); left > 0 && ctx.Err() == nil; left-- {
		if n.sendLeaving(ctx, l) != nil && n.renewer.isSilent(l) {
			return
		}
	}
}

// watchLoop, without Outlive, takes away sessions when their lease is all but over by this
// node's clock. Their connections have a hundredth of the lease to close, before any other node
// knows. Sessions neither due nor in flight were extended less than Renew ago, and are not
// looked at.
func (n *Node) watchLoop(ctx context.Context) {
	period := n.watchPeriod()
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		// There may be very many. So each is looked at again: Redis may have answered meanwhile.
		limit := n.elapsed() - n.cfg.Lease + 2*period
		for _, s := range n.renewer.outlived(limit) {
			if time.Duration(s.good.Load()) <= limit {
				n.takeAway(s, ReasonLost, leaveAlone)
			}
		}
		// With the node's next lease they would be online for as long as their own. A client back
		// by then finds its session.
		for _, s := range n.forsaken(2 * period) {
			if n.isForsaken(s.slot, 2*period) {
				n.takeAway(s, ReasonLost, leaveDetach)
			}
		}
	}
}

func (n *Node) watchPeriod() time.Duration {
	return max(cmp.Or(n.cfg.NodeLease, n.cfg.Lease)/100, time.Millisecond)
}
