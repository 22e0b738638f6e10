package fleet

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/wheel"
)

// renewBatch is how many leases are extended in one round trip.
const renewBatch = 4096

// renewer has the sessions whose leases are to be extended. A session that is due stays here,
// or in flight, until it has been extended or is over: its timer does not run meanwhile.
type renewer struct {
	mu      sync.Mutex
	waiting []*Session
	flight  []*Session
	leaving []leaving
	wake    chan struct{} // has an element when there may be something
	failing bool          // the renew loop's
}

// leaving is a session that the node has no more, and what Redis has to be told.
type leaving struct {
	claim
	how  leave
	from time.Duration
}

// due is the wheel's.
func (r *renewer) due(_ *wheel.TimerOf[*Session], s *Session) {
	r.mu.Lock()
	r.waiting = append(r.waiting, s)
	r.mu.Unlock()
}

// leave has Redis be told, soon, what becomes of a session.
func (n *Node) leave(c claim, how leave) {
	r := &n.renewer
	r.mu.Lock()
	r.leaving = append(r.leaving, leaving{c, how, n.elapsed()})
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// renewLoop extends what is due once per tick, and as long as there is more at once.
func (n *Node) renewLoop(ctx context.Context) {
	ticker := time.NewTicker(n.tick())
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			n.sendLeaving() // those of the last moment
			return
		case <-ticker.C:
		case <-n.renewer.wake:
		}
		for more := true; more && ctx.Err() == nil; {
			left := n.sendLeaving()
			more = n.extendSome() || left
		}
	}
}

// extendSome extends a batch, and reports whether there is more to do and Redis answers.
func (n *Node) extendSome() (more bool) {
	r := &n.renewer
	r.mu.Lock()
	size := min(len(r.waiting), renewBatch)
	batch := slices.DeleteFunc(slices.Clone(r.waiting[:size]), func(s *Session) bool { return s.Reason() != 0 })
	if r.waiting = r.waiting[size:]; len(r.waiting) == 0 {
		r.waiting = nil
	}
	r.flight, more = batch, len(r.waiting) > 0
	r.mu.Unlock()
	if len(batch) == 0 {
		return more
	}
	sent := n.elapsed()
	ctx, cancel := context.WithTimeout(context.Background(), n.cfg.Timeout)
	verdicts, err := n.store.extend(ctx, claimsOf(batch))
	cancel()
	n.stats.failed(err)
	n.sayFailing(err)
	var again, lost []*Session
	for i, s := range batch {
		switch verdicts[i] {
		case held:
			n.extended(s, sent)
		case unknown:
			lost = append(lost, s)
		case 0:
			again = append(again, s)
		default:
			n.refused(s, verdicts[i])
		}
	}
	again = append(again, n.registerAgain(lost)...)
	r.mu.Lock()
	r.flight, r.waiting = nil, append(r.waiting, again...)
	r.mu.Unlock()
	return more && err == nil
}

func (n *Node) extended(s *Session, sent time.Duration) {
	n.stats.renewals.Add(1)
	s.good.Store(int64(sent))
	s.timer.Postpone(n.next())
}

// refused takes a session away that is not this node's any more.
func (n *Node) refused(s *Session, why verdict) {
	n.stats.refused.Add(1)
	switch why {
	case superseded:
		n.takeAway(s, ReasonMoved, leaveAlone)
	case kicked:
		n.takeAway(s, ReasonKicked, leaveEnd)
	default:
		reason := ReasonExpired
		if n.draining.Load() {
			reason = ReasonDraining // and it was detached, just now
		}
		n.takeAway(s, reason, leaveAlone)
	}
}

// registerAgain registers sessions that Redis has lost, unless somebody else has them since. It
// returns those that it could not.
func (n *Node) registerAgain(lost []*Session) (again []*Session) {
	for lost := range slices.Chunk(lost, batchSize) {
		asks := make([]registration, len(lost))
		for i, s := range lost {
			c := s.claim()
			asks[i] = registration{id: c.id, meta: s.meta, before: &c.token}
		}
		sent := n.elapsed()
		answers, _ := n.registerNow(asks)
		for i, s := range lost {
			switch answers[i].kind {
			case 0:
				again = append(again, s)
				continue
			case kindRefused:
				n.refused(s, superseded)
				continue
			}
			if left := s.renewed(answers[i].token); left != leaveAlone {
				n.leave(s.claim(), left)
				continue
			}
			n.extended(s, sent)
			n.tellOnline(s, answers[i], true)
		}
	}
	return again
}

// sayFailing says when Redis stops answering, and when it answers again.
func (n *Node) sayFailing(err error) {
	if failing := err != nil; failing != n.renewer.failing {
		n.renewer.failing = failing
		if failing {
			n.cfg.Logger.Warn("fleet: leases can't be extended", "node", n.cfg.Node, "error", err)
		} else {
			n.cfg.Logger.Info("fleet: leases are extended again", "node", n.cfg.Node)
		}
	}
}

// sendLeaving tells Redis of sessions that have left, and reports whether there are more and it
// answers. Who can't be told of for as long as a lease has expired meanwhile.
func (n *Node) sendLeaving() (more bool) {
	r := &n.renewer
	r.mu.Lock()
	batch := r.leaving[:min(len(r.leaving), batchSize)]
	if r.leaving = r.leaving[len(batch):]; len(r.leaving) == 0 {
		r.leaving = nil
	}
	more = r.leaving != nil
	r.mu.Unlock()
	var failed []leaving
	var first error
	for _, how := range []leave{leaveEnd, leaveDetach} {
		var part []leaving
		var claims []claim
		for _, l := range batch {
			if l.how == how {
				part, claims = append(part, l), append(claims, l.claim)
			}
		}
		if len(part) == 0 {
			continue
		}
		resume := time.Duration(0)
		if how == leaveDetach {
			resume = n.cfg.Resume
		}
		ctx, cancel := context.WithTimeout(context.Background(), n.cfg.Timeout)
		verdicts, err := n.store.unregister(ctx, claims, resume)
		cancel()
		n.stats.failed(err)
		for i, l := range part {
			if verdicts[i] == 0 && n.elapsed()-l.from < n.cfg.Lease {
				failed = append(failed, l)
			}
		}
		if err != nil {
			first = err
		}
	}
	if len(failed) > 0 {
		r.mu.Lock()
		r.leaving = append(r.leaving, failed...)
		r.mu.Unlock()
	}
	return more && first == nil
}

// watchLoop takes sessions away whose lease is over by this node's clock. Those that are neither
// due nor in flight were extended less than Renew ago.
func (n *Node) watchLoop(ctx context.Context) {
	period := max(n.cfg.Lease/100, time.Millisecond)
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if n.cfg.Outlive {
			continue
		}
		for _, s := range n.outlived(period) {
			n.takeAway(s, ReasonLost, leaveAlone)
		}
	}
}

// outlived returns the sessions whose lease will be over in less than ahead.
func (n *Node) outlived(ahead time.Duration) (over []*Session) {
	limit := n.elapsed() - n.cfg.Lease + ahead
	r := &n.renewer
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, list := range [][]*Session{r.flight, r.waiting} {
		for _, s := range list {
			if time.Duration(s.good.Load()) <= limit {
				over = append(over, s)
			}
		}
	}
	return over
}
