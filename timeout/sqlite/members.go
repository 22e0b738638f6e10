package sqlite

import (
	"context"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/internal/sqlkit"
)

// Beat is timeout.Members'.
func (e *Engine) Beat(ctx context.Context, node timeout.Node, ttl time.Duration) (view timeout.View, err error) {
	topics, err := sqlkit.WriteTopics(node.Topics)
	if err != nil {
		return view, err
	}
	err = e.write(ctx, func(s *session) error {
		now := clock()
		gone, err := s.expireMembers(now)
		if err != nil {
			return err
		}
		there := ""
		found, err := s.one(`SELECT topics FROM {members} WHERE name = ?`, []any{node.Name}, &there)
		if err != nil {
			return err
		}
		if gone || !found || there != topics {
			if _, err := s.exec(`UPDATE {meta} SET value = value + 1 WHERE name = 'term'`); err != nil {
				return err
			}
		}
		if _, err := s.exec(beat, node.Name, topics, timeout.CeilMillis(ttl), now); err != nil {
			return err
		}
		view, err = s.view()
		return err
	})
	return view, err
}

// beat keeps the place of a node that is there. Otherwise the term, which is another one
// then, is its number.
const beat = `INSERT INTO {members} (name, number, topics, ttl, until)
	VALUES (?1, (SELECT value FROM {meta} WHERE name = 'term'), ?2, ?3, ?4 + ?3)
	ON CONFLICT (name) DO UPDATE SET topics = excluded.topics, ttl = excluded.ttl, until = excluded.until`

// expireMembers removes nodes that have been silent for too long. One that has longer than
// its ttl was seen before the clock was stepped back.
func (s *session) expireMembers(now int64) (gone bool, err error) {
	if _, err := s.exec(`UPDATE {members} SET until = ?1 + ttl WHERE until > ?1 + ttl`, now); err != nil {
		return false, err
	}
	n, err := s.exec(`DELETE FROM {members} WHERE until <= ?1`, now)
	return n > 0, err
}

func (s *session) view() (view timeout.View, err error) {
	if _, err := s.one(`SELECT value FROM {meta} WHERE name = 'term'`, nil, &view.Term); err != nil {
		return view, err
	}
	err = s.each(`SELECT name, topics FROM {members} ORDER BY number`, nil, func(scan func(...any) error) (bool, error) {
		var node timeout.Node
		var topics string
		if err := scan(&node.Name, &topics); err != nil {
			return false, err
		}
		node.Topics, err = sqlkit.ReadTopics(topics)
		view.Nodes = append(view.Nodes, node)
		return true, err
	})
	return view, err
}

// Leave is timeout.Members'.
func (e *Engine) Leave(ctx context.Context, name string) error {
	return e.write(ctx, func(s *session) error {
		left, err := s.exec(`DELETE FROM {members} WHERE name = ?`, name)
		if err == nil && left > 0 {
			_, err = s.exec(`UPDATE {meta} SET value = value + 1 WHERE name = 'term'`)
		}
		return err
	})
}
