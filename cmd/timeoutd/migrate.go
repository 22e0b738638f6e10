package main

import (
	"context"
	"fmt"
	"io"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/postgres"
	"github.com/heartwheel-go/heartwheel/timeout/sqlite"
)

// printMigrations writes the changes of tables that a start would make, as SQL. It changes nothing.
func (o *options) printMigrations(ctx context.Context, w io.Writer) error {
	switch {
	case o.memory || len(o.database) == 0 && o.redis != "":
		_, err := fmt.Fprintln(w, "-- there are no tables")
		return err
	case len(o.database) > 0:
		for _, url := range o.database {
			pending, err := postgres.Pending(ctx, url, postgres.Config{})
			if err := printPending(w, "PostgreSQL at "+where(url), pending, err); err != nil {
				return err
			}
		}
		return nil
	}
	paths, err := o.sqlitePaths()
	if err != nil {
		return err
	}
	for _, path := range paths {
		pending, err := sqlite.Pending(ctx, path)
		if err := printPending(w, "SQLite at "+path, pending, err); err != nil {
			return err
		}
	}
	return nil
}

func printPending(w io.Writer, place string, pending []engine.Migration, err error) error {
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "-- %s: %d changes of tables\n", place, len(pending)); err != nil {
		return err
	}
	for _, m := range pending {
		if _, err := fmt.Fprintf(w, "-- %s makes version %d\n%s\n", m.Name, m.Version, m.SQL); err != nil {
			return err
		}
	}
	return nil
}
