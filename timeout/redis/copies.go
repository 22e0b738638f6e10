package redis

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/redisrun"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// A Cluster has the records of all topics in one hash on one master, and copies of them under
// these hash tags: see timeout/docs/decisions/0008-topic-copies.md. The tags divide the slots of a Cluster evenly, so
// three masters or more have at most two each. A single server has no copies.
var copyTags = []string{"topics:1511", "topics:1521", "topics:1531", "topics:1571", "topics:1541"}

const (
	// most is more than half of the copies.
	most = 3

	// tombstoneTime is how long the copies remember a dropped topic. A server with older data would
	// bring the topic back.
	tombstoneTime = 30 * 24 * time.Hour

	// provenTime is how long a process takes the copies of a record for complete.
	provenTime = time.Minute
)

// proof is a record in most of the copies, at some time.
type proof struct {
	raw string
	at  time.Time
}

func (e *Engine) proven(topic, raw string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.proofs[topic]
	return p.raw == raw && time.Since(p.at) < provenTime
}

func (e *Engine) prove(topic, raw string) {
	e.mu.Lock()
	e.proofs[topic] = proof{raw, time.Now()}
	e.mu.Unlock()
}

// reconcile writes a topic's record to the copies, and returns the record for the hash: another one if
// the hash has lost changes, and an empty one if there is no such topic. own says that this process
// has just written the record to the hash.
func (e *Engine) reconcile(ctx context.Context, topic, raw string, own bool) (string, error) {
	if !e.redis.Clustered() || raw != "" && e.proven(topic, raw) {
		return raw, nil
	}
	if err := e.step("copy"); err != nil {
		return "", err
	}
	held, err := e.copy(ctx, topic, raw)
	if err != nil {
		return "", err
	}
	should, err := quorum(raw, held.count())
	if err != nil || should.raw == "" {
		return "", err
	}
	if own && raw != "" && should.raw != raw {
		if err := e.recall(ctx, topic, raw, should, held); err != nil {
			return "", err
		}
	}
	if should.Phase == dropped {
		if raw == "" && len(held.count()) > 1 { // some have not heard of it
			_, err = e.copy(ctx, topic, should.raw)
		}
		return "", err
	}
	if raw == "" || held.count()[raw] < most {
		return should.raw, nil
	}
	e.prove(topic, raw)
	e.tidy(ctx, topic, should, held)
	return raw, nil
}

// recall takes this process's record of a topic made anew from the copies that had it. They get the
// one of the topic that is there: nobody has used the other.
func (e *Engine) recall(ctx context.Context, topic, raw string, should ranked, held answers) error {
	own, err := rank(raw, 0)
	if err != nil || own.FirstGen == should.FirstGen {
		return err // a later change takes its place
	}
	e.replace(ctx, topic, should, held, func(other string) bool { return other == raw })
	return nil // most copies have the other one in any case
}

// tidy gives a topic's record to the copies that refuse it for another one: the topic was made twice, or
// changed twice at one Seq, and that process ended before its recall. The other record could win after a
// loss of the hash and of some copies. own is in the hash and in most copies.
func (e *Engine) tidy(ctx context.Context, topic string, own ranked, held answers) {
	wrong := func(other string) bool {
		r, err := rank(other, 0)
		refuses := r.FirstGen != own.FirstGen || r.Seq == own.Seq
		return err == nil && other != "" && other != own.raw && r.Phase != dropped && refuses
	}
	if !slices.ContainsFunc(held, wrong) {
		return
	}
	if now, err := e.read(ctx, topic); err == nil && now == own.raw { // not dropped and made anew meanwhile
		e.replace(ctx, topic, own, held, wrong)
	}
}

// replace gives a record to the copies with a wrong one.
func (e *Engine) replace(ctx context.Context, topic string, should ranked, held answers, wrong func(raw string) bool) {
	var calls []*redisrun.Call
	for i, tag := range copyTags {
		if wrong(held[i]) {
			c := e.copyCall(tag, topic, should.raw)
			c.Args[3] = held[i]
			calls = append(calls, c)
		}
	}
	_ = e.redis.Run(ctx, calls) // the next look at a copy tries again
}

// answers are the records of a topic in the copies, in the order of copyTags.
type answers []string

// silent is the answer of a copy that gives none.
const silent = "silent"

// count returns how many copies have which record. A silent one has none, not even an empty one.
func (a answers) count() map[string]int {
	held := make(map[string]int)
	for _, raw := range a {
		if raw != silent {
			held[raw]++
		}
	}
	return held
}

// copy has the copies take a record, or only asks them if it is empty. One answer is enough. But most
// copies must answer before a topic is missing. A copy that was not waited for is not silent: if ctx ends
// before all answers, copy has its error.
func (e *Engine) copy(ctx context.Context, topic, raw string) (answers, error) {
	calls := make([]*redisrun.Call, len(copyTags))
	for i, tag := range copyTags {
		calls[i] = e.copyCall(tag, topic, raw)
	}
	err := e.redis.Run(ctx, calls)
	held := make(answers, len(calls))
	for i, c := range calls {
		if held[i] = silent; c.Err == nil {
			held[i] = text(c.Answer[0])
		}
	}
	found := held.count()
	none := len(found) == 0 || len(found) == 1 && found[""] > 0
	switch {
	case err == nil:
	case ctx.Err() != nil, raw == "" && none && found[""] < most:
		return nil, err
	case raw != "" && len(found) == 0 && !errors.Is(err, engine.ErrFull): // a full Cluster serves the topics that it has
		return nil, err
	}
	return held, nil
}

func (e *Engine) copyCall(tag, topic, raw string) *redisrun.Call {
	keys := []any{e.copyKey(tag), e.cfg.Prefix + ":{" + tag + "}:d:" + topic}
	return &redisrun.Call{Script: scriptCopy, Keys: keys, Args: []any{topic, raw, tombstoneTime.Milliseconds(), ""}}
}

func (e *Engine) copyKey(tag string) string { return e.cfg.Prefix + ":{" + tag + "}:t" }

// ranked is a record of some copies.
type ranked struct {
	kept
	raw  string
	held int
}

func rank(raw string, held int) (r ranked, err error) {
	r.raw, r.held = raw, held
	if raw != "" {
		err = parse(raw, &r.kept)
	}
	return r, err
}

// quorum decides between the records of a topic. The hash has raw, and the copies could have taken
// it.
func quorum(raw string, held map[string]int) (ranked, error) {
	own, err := rank(raw, held[raw])
	if err != nil || own.Seq > 0 && own.held >= most {
		return own, err
	}
	var last, known ranked // the one with the highest Seq, and the one of most copies
	for other, count := range held {
		r, err := rank(other, count)
		switch {
		case err != nil:
			return own, err
		case other == "" || other == raw:
			continue
		case count >= most:
			known = r
		}
		if c := cmp.Or(cmp.Compare(r.Seq, last.Seq), cmp.Compare(r.held, last.held), cmp.Compare(r.raw, last.raw)); c > 0 {
			last = r
		}
	}
	if known.raw != "" && known.FirstGen != last.FirstGen {
		last = known // the other topic of the same name was never used
	}
	switch {
	case raw != "" && own.Seq == 0 && (own.held > 0 || last.raw != ""): // by a node of an earlier version
		own.Seq = last.Seq + 1
		own.raw, err = own.json()
	case raw == "" || last.Seq > own.Seq:
		return last, nil
	case known.raw != "":
		return known, nil
	case last.raw != "" && last.Seq == own.Seq: // nobody has used either of them
		own.Seq++
		own.raw, err = own.json()
	}
	return own, err
}

// tombstone returns the highest number in the copies' record of a missing topic, or zero.
func (e *Engine) tombstone(ctx context.Context, topic string) (highest int64, err error) {
	if !e.redis.Clustered() {
		return 0, nil
	}
	held, err := e.copy(ctx, topic, "")
	if err != nil {
		return 0, err
	}
	last, err := quorum("", held.count())
	return max(last.Seq, last.Rev), err // Rev is never below Gen
}

// writeTombstone tells the copies of the end of a topic.
func (e *Engine) writeTombstone(ctx context.Context, l *layout) error {
	if !e.redis.Clustered() {
		return nil
	}
	raw, err := kept{Topic: engine.Topic{Name: l.Topic.Name}, Phase: dropped, Rev: l.Rev, Seq: l.Seq + 1, FirstGen: l.FirstGen}.json()
	if err != nil {
		return err
	}
	_, err = e.copy(ctx, l.Topic.Name, raw)
	return err
}

// copied returns the topics in the copies, and an error if most copies have not answered.
func (e *Engine) copied(ctx context.Context) (names map[string]bool, err error) {
	calls := make([]*redisrun.Call, len(copyTags))
	for i, tag := range copyTags {
		calls[i] = &redisrun.Call{Script: scriptCopied, Keys: []any{e.copyKey(tag)}}
	}
	err = e.redis.Run(ctx, calls)
	names = make(map[string]bool)
	answers := 0
	for _, c := range calls {
		if c.Err == nil {
			answers++
			for _, name := range c.Answer {
				names[text(name)] = true
			}
		}
	}
	if answers >= most {
		err = nil
	}
	return names, err
}

func (k kept) json() (string, error) {
	raw, err := json.Marshal(k)
	if err != nil {
		return "", fmt.Errorf("timeout/redis: writing topic %q: %w", k.Topic.Name, err)
	}
	return string(raw), nil
}

func parse(raw string, k *kept) error {
	if err := json.Unmarshal([]byte(raw), k); err != nil {
		return fmt.Errorf("timeout/redis: reading a topic: %w", err)
	}
	return nil
}
