package sqlite

import (
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/internal/sqlkit"
)

// fenceAge is how old the mark of a term may be before it is made anew: so who only looks
// writes now and then. A fence stands for so much longer.
const fenceAge = 5000

const selectFence = `SELECT
	coalesce(sum(f.term > ?3 AND f.seen > ?4), 0),
	coalesce(sum(f.term = ?3 AND f.seen BETWEEN ?5 AND ?6), 0)
	FROM json_each(?2) AS s CROSS JOIN {fences} AS f ON f.topic = ?1 AND f.slot = s.value`

// readFence reports whether the term must be marked, and whether it is too old.
func (s *session) readFence(t topic, ask timeout.Ask, now int64) (stale, fenced bool, err error) {
	if ask.Term == 0 || ask.Max <= 0 {
		return false, false, nil
	}
	slots := sqlkit.Slots(ask.Slots, t.slots)
	list, err := jsonArray(slots)
	if err != nil {
		return false, false, err
	}
	var higher, marked int
	_, err = s.one(selectFence, []any{t.id, list, ask.Term, now - timeout.FenceFor.Milliseconds() - fenceAge, now - fenceAge, now}, &higher, &marked)
	return marked < len(slots), higher > 0, err
}

const markFence = `INSERT INTO {fences} (topic, slot, term, seen) SELECT ?1, value, ?3, ?4 FROM json_each(?2) WHERE true
	ON CONFLICT (topic, slot) DO UPDATE SET term = ?3, seen = ?4`

// fence reports whether somebody with a later term has asked for a slot, and otherwise
// marks them with this one.
func (s *session) fence(t topic, ask timeout.Ask) (fenced bool, err error) {
	now := clock()
	stale, fenced, err := s.readFence(t, ask, now)
	if fenced && err == nil { // a mark of the future is one from before the clock was stepped back
		_, err = s.exec(`UPDATE {fences} SET seen = ?2 WHERE topic = ?1 AND seen > ?2`, t.id, now)
	}
	if err != nil || fenced || !stale {
		return fenced, err
	}
	list, err := jsonArray(sqlkit.Slots(ask.Slots, t.slots))
	if err != nil {
		return false, err
	}
	_, err = s.exec(markFence, t.id, list, ask.Term, now)
	return false, err
}
