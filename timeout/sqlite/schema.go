package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

//go:embed sql/*.sql
var migrations embed.FS

// onlyOld is for files made before: in a new one the first file makes its columns.
const onlyOld = "sql/0006_record.sql"

// migrate brings the tables to the newest version. The transaction must hold the write lock. So
// two processes that open the file at the same time migrate it once.
func migrate(ctx context.Context, s *session) error {
	left, err := pending(ctx, s)
	if err != nil {
		return err
	}
	for _, m := range left {
		for statement := range strings.SplitSeq(m.SQL, ";\n") {
			if strings.TrimSpace(statement) == "" {
				continue
			}
			if _, err := s.ExecContext(ctx, statement); err != nil {
				return fmt.Errorf("%s: %w", m.Name, err)
			}
		}
	}
	return nil
}

// Pending returns the changes of tables that Open would make in a file, in order, and changes nothing itself. To execute their
// SQL in one transaction is what Open does. Those of a missing file are all.
func Pending(ctx context.Context, path string) ([]engine.Migration, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return later(0, false)
	}
	db, err := sql.Open("sqlite", address(path, "query_only(1)", "busy_timeout("+fmt.Sprint(defaultBusy.Milliseconds())+")"))
	if err != nil {
		return nil, err
	}
	defer db.Close()
	left, err := pending(ctx, &session{on: db})
	if err != nil {
		return nil, fmt.Errorf("timeout/sqlite: reading the version of the tables of %s: %w", path, err)
	}
	return left, nil
}

// pending returns the migrations above the version in hw_meta.
func pending(ctx context.Context, s *session) ([]engine.Migration, error) {
	version := 0
	made, err := one(ctx, s, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'hw_meta'", nil, new(int))
	if err == nil && made {
		_, err = one(ctx, s, "SELECT value FROM hw_meta WHERE name = 'schema'", nil, &version)
	}
	if err != nil {
		return nil, err
	}
	return later(version, made)
}

// later returns the migrations of tables of a version.
func later(version int, made bool) (left []engine.Migration, err error) {
	names, err := fs.Glob(migrations, "sql/*.sql")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	if version > len(names) {
		return nil, fmt.Errorf("%w: tables are of version %d, must be at most %d: they were made by a newer version of this package",
			engine.ErrArgument, version, len(names))
	}
	for i, name := range names[version:] {
		text, err := migrations.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if name == onlyOld && !made {
			text = nil
		}
		number := version + i + 1
		text = fmt.Appendf(text, "\nINSERT OR REPLACE INTO hw_meta (name, value) VALUES ('schema', %d);\n", number)
		left = append(left, engine.Migration{Version: number, Name: strings.TrimPrefix(name, "sql/"), SQL: string(text)})
	}
	return left, nil
}
