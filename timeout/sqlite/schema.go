package sqlite

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
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
	names, err := fs.Glob(migrations, "sql/*.sql")
	if err != nil {
		return err
	}
	slices.Sort(names)
	version := 0
	made, err := one(ctx, s, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'hw_meta'", nil, new(int))
	if err != nil {
		return err
	}
	if made {
		if _, err := one(ctx, s, "SELECT value FROM hw_meta WHERE name = 'schema'", nil, &version); err != nil {
			return err
		}
	}
	if version > len(names) {
		return fmt.Errorf("%w: tables are of version %d, must be at most %d: they were made by a newer version of this package",
			engine.ErrArgument, version, len(names))
	}
	if version == len(names) {
		return nil
	}
	for _, name := range names[version:] {
		if name == onlyOld && !made {
			continue
		}
		text, err := migrations.ReadFile(name)
		if err != nil {
			return err
		}
		for statement := range strings.SplitSeq(string(text), ";\n") {
			if strings.TrimSpace(statement) == "" {
				continue
			}
			if _, err := s.ExecContext(ctx, statement); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	_, err = s.ExecContext(ctx, "INSERT OR REPLACE INTO hw_meta (name, value) VALUES ('schema', ?)", len(names))
	return err
}
