package postgres

import (
	"context"
	"embed"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrationLock is the number of the advisory lock for migrating.
const migrationLock = 0x68775f74696d65

// migrate makes the tables of a schema, or brings them up to date: it runs the files above the version
// in hw_migrations, all in one transaction.
func migrate(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	err := pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{BeginQuery: begin}, func(tx pgx.Tx) error {
		// The lock has a statement of its own: the next statement sees what others did before, at this level.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(migrationLock)); err != nil {
			return err
		}
		return migrateIn(ctx, tx, schema)
	})
	if err != nil {
		return fmt.Errorf("timeout/postgres: making tables in schema %s: %w", schema, classify(err))
	}
	return nil
}

func migrateIn(ctx context.Context, tx pgx.Tx, schema string) error {
	files, err := migrations.ReadDir("migrations")
	if err != nil {
		return err
	}
	version, err := schemaVersion(ctx, tx, schema)
	if err != nil {
		return err
	}
	if version > len(files) {
		return fmt.Errorf("%w: tables are of version %d, must be at most %d: they were made by a later version", engine.ErrArgument, version, len(files))
	}
	for number := version + 1; number <= len(files); number++ {
		text, err := migrations.ReadFile("migrations/" + files[number-1].Name())
		if err != nil {
			return err
		}
		statements := strings.ReplaceAll(string(text), "{s}", quote(schema))
		if _, err := tx.Conn().PgConn().Exec(ctx, statements).ReadAll(); err != nil {
			return fmt.Errorf("%s: %w", files[number-1].Name(), err)
		}
		if _, err := tx.Exec(ctx, `INSERT INTO `+quote(schema)+`.hw_migrations (version) VALUES ($1)`, number); err != nil {
			return err
		}
	}
	return nil
}

// schemaVersion returns the version of the tables. It makes the schema and hw_migrations if missing.
// So a role without the right to make them can use existing ones.
func schemaVersion(ctx context.Context, tx pgx.Tx, schema string) (version int, err error) {
	var haveSchema, haveTable bool
	err = tx.QueryRow(ctx, `SELECT to_regnamespace($1) IS NOT NULL, to_regclass($2) IS NOT NULL`, quote(schema), quote(schema)+".hw_migrations").
		Scan(&haveSchema, &haveTable)
	if err == nil && !haveSchema {
		_, err = tx.Exec(ctx, `CREATE SCHEMA `+quote(schema))
	}
	if err == nil && !haveTable {
		_, err = tx.Exec(ctx, `CREATE TABLE `+quote(schema)+`.hw_migrations (version integer PRIMARY KEY)`)
	}
	if err == nil {
		err = tx.QueryRow(ctx, `SELECT coalesce(max(version), 0) FROM `+quote(schema)+`.hw_migrations`).Scan(&version)
	}
	return version, err
}

func quote(schema string) string { return pgx.Identifier{schema}.Sanitize() }
