package timeout

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

const (
	// settleSize is the largest number of outcomes settled by one call. With a backlog,
	// outcomes wait up to settleWait to be settled together. PostgreSQL settles so many in one
	// transaction, so none is settled twice if it fails.
	settleSize = 1000
	settleWait = 5 * time.Millisecond

	// engineTimeout is the time limit of a call of the engine. With a backlog, up to engineCalls
	// calls of a part are under way: handlers run the tasks of one while the engine answers another.
	engineTimeout = 15 * time.Second
	engineCalls   = 2

	// untoldRest is the pause before slots that could not be told of outcomes are told again.
	untoldRest = time.Second
)

// leaser leases due tasks of a topic from the parts of an engine, and settles their outcomes, for a consumer: a worker or a
// dispatcher. One goroutine plans the questions to the parts (serve), and each question has a goroutine of its own (ask). If
// nothing is known to be due, serve sleeps until the next due time, until a wake-up, or for Center.poll.
//
// What always holds:
//   - The tasks that calls under way may lease count as leased: they have used up room, and tokens of the rate. Those of a
//     silent part no longer count if other parts can use the room.
//   - An outcome is in part.outcomes, then in one call, and after that settled, or in part.outcomes again if the part has
//     failed, or in part.untold if only its slot has.
//   - A part has one call under way, or up to engineCalls with a backlog. No call waits for another part.
//   - A failing part is asked less and less often, and the others as ever.
type leaser struct {
	c        *Center
	name     string // of the topic
	consumer consumer
	asking   *sync.WaitGroup // calls under way
	fair     *fairQueue      // of the node's places; nil if the tasks run elsewhere
	wakeup   chan struct{}   // has an element if serve must plan anew

	// mu guards the fields below, and those of the consumer. It is not held during calls of the engine or a handler.
	mu       sync.Mutex
	topic    Topic
	schedule *engine.Schedule // of Topic.Every; nil without it
	unread   error            // why this node can't read Topic.Every
	limiter  *rate.Limiter    // nil without a rate
	counts   Stats
	parts    []*part   // the one asked last is the last
	renewed  time.Time // when the parts were last asked for
}

// consumer is what leased tasks are for. leaser.mu is held during calls of the methods, except for answer.
type consumer interface {
	// prepare gets ready for a plan. It returns the question, as far as it is the same for all parts, and the longest wait
	// for another plan: zero if there is nothing more to ask for.
	prepare(now time.Time) (ask engine.Ask, longest time.Duration)

	// room returns the number of tasks to ask a part for now. If overdue is positive, they are tasks in the slots of other nodes,
	// due for that long.
	room(p *part, now time.Time) (tasks int, overdue time.Duration)

	// begins completes a question for tasks.
	begins(p *part, ask *engine.Ask, now time.Time)

	// answer takes the answer to a question asked at that time. It calls endCall.
	answer(p *part, ask engine.Ask, batch engine.Batch, err error, asked time.Time)
}

// attach makes l the leaser of a topic.
func (l *leaser) attach(c *Center, topic string, consumer consumer, asking *sync.WaitGroup) {
	l.c, l.name, l.consumer, l.asking, l.wakeup = c, topic, consumer, asking, make(chan struct{}, 1)
	if _, parted := c.engine.(engine.Parted); !parted {
		l.part(0)
	}
}

// adopt takes the current topic. l.mu must be held.
func (l *leaser) adopt(topic Topic) {
	if topic.Every != l.topic.Every {
		if l.schedule, l.unread = scheduleOf(topic); l.unread != nil {
			l.c.cfg.Logger.Error("timeout: this node can't read the schedule of a topic, and runs none of its tasks", "topic", l.name, "err", l.unread)
		}
	}
	if topic.Every != l.topic.Every || topic.Paused != l.topic.Paused || !topic.PausedUntil.Equal(l.topic.PausedUntil) {
		l.lookNow()
	}
	l.topic = topic
}

// awaitsResume reports whether a topic is paused until somebody resumes it. Any other pause is the engine's to judge: it leases
// nothing before the end, and says when that is.
func awaitsResume(topic Topic) bool { return topic.Paused && topic.PausedUntil.IsZero() }

// setRate sets how many tasks are leased in a second. l.mu must be held.
func (l *leaser) setRate(perSecond float64, now time.Time) {
	burst := burstOf(perSecond)
	switch {
	case math.IsInf(perSecond, 1):
		l.limiter = nil
	case l.limiter == nil:
		l.limiter = rate.NewLimiter(rate.Limit(perSecond), burst)
	case l.limiter.Limit() != rate.Limit(perSecond):
		l.limiter.SetLimitAt(now, rate.Limit(perSecond))
		l.limiter.SetBurstAt(now, burst)
	}
}

// burstOf returns how many tasks may begin at once: those of a tenth of a second, or one.
func burstOf(perSecond float64) int {
	if perSecond == 0 {
		return 0
	}
	return max(int(min(perSecond, engine.MaxRate)/10), 1)
}

// tokens returns for how many more tasks the rate lets parts be asked now. l.mu must be held.
func (l *leaser) tokens(now time.Time) int {
	if l.limiter == nil {
		return math.MaxInt
	}
	return int(l.limiter.TokensAt(now)) - l.asked()
}

// refill returns how long the rate lets no task begin: until some of a burst can, at most longest. l.mu must be held.
func (l *leaser) refill(now time.Time, longest time.Duration) time.Duration {
	if l.limiter == nil || l.asked() > 0 || l.tokens(now) > 0 {
		return longest
	}
	missing := max(1, float64(l.limiter.Burst())/2) - l.limiter.TokensAt(now)
	return min(max(time.Duration(missing/float64(l.limiter.Limit())*float64(time.Second)), time.Millisecond), longest)
}

// serve asks the parts of the engine until there is nothing more to ask for.
func (l *leaser) serve() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		p, ask, wait := l.plan(time.Now())
		switch {
		case p != nil:
			l.asking.Go(func() { l.ask(p, ask) })
			continue
		case wait == 0:
			return
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-l.wakeup:
		}
	}
}

// plan returns the next question and the part of the engine to ask, or a positive wait if there is none yet. Without both
// there will be none.
func (l *leaser) plan(now time.Time) (p *part, ask engine.Ask, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ask, longest := l.consumer.prepare(now)
	ask.Topic, ask.Node = l.name, l.c.cfg.Node
	if wait = longest; wait == 0 {
		return nil, ask, 0
	}
	for _, p := range l.parts {
		one, until := l.planFor(p, ask, now, longest)
		if until <= 0 {
			return p, one, 0
		}
		wait = min(wait, until)
	}
	return nil, ask, wait
}

// planFor returns the next question to a part of the engine, or a positive wait if there is none yet. It is about longest if
// nothing is known. l.mu must be held.
func (l *leaser) planFor(p *part, ask engine.Ask, now time.Time, longest time.Duration) (engine.Ask, time.Duration) {
	if wait := p.until.Sub(now); wait > 0 {
		return ask, wait
	}
	if len(p.untold) > 0 {
		if now.Before(p.again) {
			longest = min(longest, p.again.Sub(now))
		} else {
			p.outcomes, p.untold = append(p.untold, p.outcomes...), nil
		}
	}
	ask.Max, ask.OverdueBy = l.consumer.room(p, now)
	switch {
	case p.calls == engineCalls || p.calls > 0 && (!p.full || ask.Max == 0 || p.isSilent(now)):
		return ask, longest
	case len(p.outcomes) > 0 && p.full && ask.Max == 0 && now.Sub(p.first) < settleWait:
		return ask, settleWait - now.Sub(p.first)
	case len(p.outcomes) > 0 || ask.OverdueBy > 0:
	case ask.Max == 0:
		return ask, longest
	default:
		if wait := min(p.look.Sub(now), longest); wait > 0 {
			return ask, wait
		}
	}
	if ask.Max > 0 {
		l.consumer.begins(p, &ask, now)
	}
	l.beginCall(p, &ask, now)
	return ask, 0
}

// beginCall notes that a part is asked, and completes the question with the first of its outcomes. l.mu must be held.
func (l *leaser) beginCall(p *part, ask *engine.Ask, now time.Time) {
	n := min(len(p.outcomes), settleSize)
	ask.Part, ask.Settle = p.number, p.outcomes[:n:n]
	p.outcomes = append([]engine.Outcome(nil), p.outcomes[n:]...)
	p.calls++
	p.begun = now
	i := slices.Index(l.parts, p)
	l.parts = append(slices.Delete(l.parts, i, i+1), p)
	l.promise(p, ask.Max)
	if ask.Max > 0 && ask.OverdueBy == 0 {
		poll := l.c.poll()
		p.look = now.Add(poll - jitter((poll-l.c.cfg.Poll)/10)) // earlier wakes are answered by this call, later ones still count
		p.net, p.own = p.look, now.Add(ownLook-jitter(ownLook/2))
	}
}

// ask calls a part of the engine.
func (l *leaser) ask(p *part, ask engine.Ask) {
	ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
	defer cancel()
	asked := time.Now()
	batch, err := l.c.engine.Lease(ctx, ask)
	l.consumer.answer(p, ask, batch, err, asked)
	if err == nil || errors.Is(err, engine.ErrPartial) {
		l.c.tellDead(ask.Settle, batch.Settled)
	}
}

// endCall notes the end of a call. It reports whether the part has answered, perhaps only in part. l.mu must be held.
func (l *leaser) endCall(p *part, ask engine.Ask, batch engine.Batch, err error, now time.Time) (answered bool) {
	p.calls--
	l.promise(p, -min(ask.Max, p.asked))
	p.full = p.full && err == nil
	l.answered(p, err, now)
	if p.number == 0 || err != nil {
		l.renewed = time.Time{} // the engine may know its parts now, or have others
	}
	signal(l.wakeup)
	partial := errors.Is(err, engine.ErrPartial)
	if err != nil && !partial {
		p.look = time.Time{} // as soon as troubles allow it
		p.outcomes = append(ask.Settle, p.outcomes...)
		return false
	}
	p.clock = clock{batch.Now, now}
	if partial {
		p.again = now.Add(untoldRest)
	}
	for i, outcome := range ask.Settle {
		switch settled := i < len(batch.Settled) && batch.Settled[i]; {
		case settled:
		case partial:
			p.untold = append(p.untold, outcome)
		case outcome.As != Pending || outcome.NewRun:
			l.counts.Lost++
		}
		switch own := ask.Max > 0 && ask.OverdueBy == 0; {
		case own || outcome.As != Pending: // what is due in its own slots was looked for
		case outcome.Due.IsZero():
			l.lookAt(p, now.Add(outcome.After))
		default:
			l.lookAt(p, p.clock.at(outcome.Due))
		}
	}
	switch found := len(batch.Leased); {
	case ask.Max == 0 || ask.OverdueBy > 0: // it says nothing about its own slots
	case found == ask.Max:
		l.lookAt(p, now)
	case batch.Next.IsZero():
	case found == 0:
		l.lookAt(p, now.Add(max(batch.Next.Sub(batch.Now), minPoll)))
	default:
		l.lookAt(p, now.Add(batch.Next.Sub(batch.Now)))
	}
	return true
}

// givesUp counts a leased task, and takes a token of the rate for it. But if the last attempt of its run ended with its lease,
// or its NotAfter has passed, it settles it: see expired. l.mu must be held.
func (l *leaser) givesUp(one *Leased, now time.Time) bool {
	if one.Again {
		l.counts.Again++
	}
	outcome, over := expired(l.topic, l.schedule, one, now)
	if over {
		l.settle(outcome)
	} else if l.limiter != nil {
		l.limiter.Reserve()
	}
	return over
}

// settle queues an outcome for the engine. l.mu must be held.
func (l *leaser) settle(outcome engine.Outcome) {
	l.counts.gaveUp(outcome)
	p := l.partOf(outcome.Token.Key)
	if len(p.outcomes) == 0 {
		p.first = time.Now()
		signal(l.wakeup)
	}
	p.outcomes = append(p.outcomes, outcome)
}
