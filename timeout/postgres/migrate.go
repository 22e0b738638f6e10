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

// ready makes the tables ready, or with noMigrate refuses those that are not.
func ready(ctx context.Context, pool *pgxpool.Pool, schema string, noMigrate bool) error {
	if !noMigrate {
		return migrate(ctx, pool, schema)
	}
	left, err := pendingOf(ctx, pool, schema)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%w: tables in schema %s are of version %d, must be %d, and NoMigrate forbids to change them",
			engine.ErrConflict, schema, left[0].Version-1, left[len(left)-1].Version)
	}
	return err
}

func migrateIn(ctx context.Context, tx pgx.Tx, schema string) error {
	left, err := pending(ctx, tx, schema)
	if err != nil {
		return err
	}
	for _, m := range left {
		if _, err := tx.Conn().PgConn().Exec(ctx, m.SQL).ReadAll(); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	return nil
}

// Pending returns the changes of tables that Open would make there, in order, and changes nothing itself. To execute their SQL
// in one transaction is what Open does. Its errors are those of Open.
func Pending(ctx context.Context, url string, cfg Config) ([]engine.Migration, error) {
	pool, err := connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	schema, err := inspect(ctx, pool, cfg.Schema)
	if err != nil {
		return nil, err
	}
	return pendingOf(ctx, pool, schema)
}

// pendingOf is pending without a transaction.
func pendingOf(ctx context.Context, pool *pgxpool.Pool, schema string) ([]engine.Migration, error) {
	left, err := pending(ctx, pool, schema)
	if err != nil {
		return nil, fmt.Errorf("timeout/postgres: reading the version of the tables in schema %s: %w", schema, classify(err))
	}
	return left, nil
}

// queryer is a pool or a transaction.
type queryer interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// pending returns the migrations above the version in hw_migrations.
func pending(ctx context.Context, on queryer, schema string) (left []engine.Migration, err error) {
	var version int
	missing, made, err := missingVersions(ctx, on, schema)
	if err == nil && made {
		err = on.QueryRow(ctx, `SELECT coalesce(max(version), 0) FROM `+quote(schema)+`.hw_migrations`).Scan(&version)
	}
	if err != nil {
		return nil, err
	}
	files, err := migrations.ReadDir("migrations")
	if err != nil {
		return nil, err
	}
	if version > len(files) {
		return nil, fmt.Errorf("%w: tables are of version %d, must be at most %d: they were made by a later version", engine.ErrArgument, version, len(files))
	}
	for i, file := range files[version:] {
		text, err := migrations.ReadFile("migrations/" + file.Name())
		if err != nil {
			return nil, err
		}
		number := version + i + 1
		sql := missing + strings.ReplaceAll(string(text), "{s}", quote(schema)) +
			fmt.Sprintf("INSERT INTO %s.hw_migrations (version) VALUES (%d);\n", quote(schema), number)
		left, missing = append(left, engine.Migration{Version: number, Name: file.Name(), SQL: sql}), ""
	}
	return left, nil
}

// missingVersions returns the SQL to make the schema and hw_migrations, as far as they are missing, and whether the latter is
// there. So a role without the right to make them can use existing ones.
func missingVersions(ctx context.Context, on queryer, schema string) (sql string, made bool, err error) {
	var haveSchema bool
	err = on.QueryRow(ctx, `SELECT to_regnamespace($1) IS NOT NULL, to_regclass($2) IS NOT NULL`, quote(schema), quote(schema)+".hw_migrations").
		Scan(&haveSchema, &made)
	if !haveSchema {
		sql = "CREATE SCHEMA " + quote(schema) + ";\n"
	}
	if !made {
		sql += "CREATE TABLE " + quote(schema) + ".hw_migrations (version integer PRIMARY KEY);\n"
	}
	return sql, made, err
}

func quote(schema string) string { return pgx.Identifier{schema}.Sanitize() }
