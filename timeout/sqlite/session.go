package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"strings"
)

// session is a connection, or a transaction of somebody else's, with its statements. It
// belongs to one goroutine at a time.
type session struct {
	names   *strings.Replacer
	prepare func(context.Context, string) (*sql.Stmt, error)
	conn    *sql.Conn            // nil where the transaction is somebody else's
	kept    map[string]*sql.Stmt // by their texts
}

func (s *session) statement(text string) (*sql.Stmt, error) {
	if stmt := s.kept[text]; stmt != nil {
		return stmt, nil
	}
	stmt, err := s.prepare(context.Background(), s.names.Replace(text))
	if err != nil {
		return nil, err
	}
	s.kept[text] = stmt
	return stmt, nil
}

// exec changes something. The context of a call is not the statements': see Engine.write.
func (s *session) exec(text string, args ...any) (changed int64, err error) {
	stmt, err := s.statement(text)
	if err != nil {
		return 0, err
	}
	result, err := stmt.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// each reads rows, as long as row returns true.
func (s *session) each(text string, args []any, row func(scan func(...any) error) (more bool, err error)) error {
	stmt, err := s.statement(text)
	if err != nil {
		return err
	}
	rows, err := stmt.QueryContext(context.Background(), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if more, err := row(rows.Scan); err != nil || !more {
			return err
		}
	}
	return rows.Err()
}

// one reads a row. It reports whether there is one.
func (s *session) one(text string, args []any, to ...any) (found bool, err error) {
	err = s.each(text, args, func(scan func(...any) error) (bool, error) {
		found = true
		return false, scan(to...)
	})
	return found, err
}

func (s *session) begin(how string) error {
	_, err := s.exec(how)
	return err
}

// end commits, or takes back where there is an error.
func (s *session) end(err error) error {
	if err == nil {
		if _, err = s.exec("COMMIT"); err == nil {
			return nil
		}
	}
	// SQLite may have taken it back by itself, as it does when the disk is full: the error of
	// taking back what is not there means nothing.
	_, _ = s.exec("ROLLBACK")
	return err
}

// close ends the statements, and the connection if it is ours.
func (s *session) close() error {
	var failed error
	for _, stmt := range s.kept {
		failed = errors.Join(failed, stmt.Close())
	}
	if s.conn != nil {
		failed = errors.Join(failed, s.conn.Close())
	}
	return failed
}
