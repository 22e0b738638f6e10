package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

const (
	maxSchema  = 50
	minVersion = 120000
)

// Config configures an engine. The zero value of each field means the default.
type Config struct {
	// Schema is the schema of the tables: letters, digits and _, not beginning with a digit, at
	// most 50 bytes. It is made if absent. Empty means the first one of the search_path.
	Schema string

	// ListenURL is the server for Wake, if not the pool's: nobody can listen through a pooler such as PgBouncer
	// in transaction mode. It needs one connection, and its settings of a pool count for nothing. Empty means the
	// pool's.
	ListenURL string

	// NoMigrate makes Open refuse tables that it would have to make or change, with an error wrapping engine.ErrConflict: a
	// process of an operator's makes the changes. See Pending.
	NoMigrate bool
}

var schemaName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func checkSchema(schema string) error {
	if len(schema) > maxSchema || !schemaName.MatchString(schema) {
		return fmt.Errorf("%w: Schema %.100q, must be letters, digits and _ (the first no digit), at most %d bytes", engine.ErrArgument, schema, maxSchema)
	}
	return nil
}

// connectTimeout is how long a connection may take. A server that has hung, and was replaced under the same
// address, never answers, and pgx would wait for two minutes.
const connectTimeout = 10 * time.Second

// Open connects to the database of a URL, or of a list of keywords and values, and makes the
// tables or brings them up to date. See pgxpool.ParseConfig for its settings, such as
// pool_max_conns. Without connect_timeout, a connection may take 10s to be made. The error wraps
// engine.ErrArgument if the URL is invalid, if the database is older than version 12 or not in UTF-8,
// or if a later version of this package made its tables. A server that takes no changes, such as a
// standby, is an error too.
func Open(ctx context.Context, url string, cfg Config) (*Engine, error) {
	pool, err := connect(ctx, url)
	if err != nil {
		return nil, err
	}
	e, err := New(ctx, pool, cfg)
	if err != nil {
		pool.Close()
		return nil, err
	}
	e.own = true
	return e, nil
}

// connect makes the pool of a URL.
func connect(ctx context.Context, url string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("%w: URL of PostgreSQL: %w", engine.ErrArgument, withoutSecret(err))
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = connectTimeout
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("%w: URL of PostgreSQL: %w", engine.ErrArgument, err)
	}
	return pool, nil
}

// withoutSecret takes the parsed text out of an error: it may hold a password.
func withoutSecret(err error) error {
	if parse := (*pgconn.ParseConfigError)(nil); errors.As(err, &parse) {
		if inner := parse.Unwrap(); inner != nil {
			return inner
		}
		return errors.New("can't be parsed")
	}
	return err
}

// New is Open with the caller's pool. The caller closes the pool after the engine.
func New(ctx context.Context, pool *pgxpool.Pool, cfg Config) (*Engine, error) {
	listen := pool.Config().ConnConfig
	if cfg.ListenURL != "" {
		direct, err := pgxpool.ParseConfig(cfg.ListenURL) // it may have the settings of a pool, as the other URL
		if err != nil {
			return nil, fmt.Errorf("%w: ListenURL: %w", engine.ErrArgument, withoutSecret(err))
		}
		listen = direct.ConnConfig
	}
	schema, err := inspect(ctx, pool, cfg.Schema)
	if err != nil {
		return nil, err
	}
	if err := ready(ctx, pool, schema, cfg.NoMigrate); err != nil {
		return nil, err
	}
	return newEngine(pool, listen, schema), nil
}

// inspect returns the schema to use, and refuses an unsuitable database.
func inspect(ctx context.Context, pool *pgxpool.Pool, wanted string) (schema string, err error) {
	if wanted != "" {
		if err := checkSchema(wanted); err != nil {
			return "", err
		}
	}
	const ask = askMode + `, current_setting('server_version_num')::int, current_setting('server_encoding'), coalesce(current_schema(), '')`
	var mode mode
	var version int
	var encoding string
	if err := pool.QueryRow(ctx, ask).Scan(&mode.standby, &mode.readOnly, &version, &encoding, &schema); err != nil {
		return "", fmt.Errorf("timeout/postgres: asking the server what it is: %w", classify(err))
	}
	if version < minVersion {
		return "", fmt.Errorf("%w: PostgreSQL is of version %d, must be %d or newer", engine.ErrArgument, version, minVersion)
	}
	if encoding != "UTF8" {
		return "", fmt.Errorf("%w: the database's encoding is %s, must be UTF8", engine.ErrArgument, encoding)
	}
	if err := mode.check(); err != nil {
		return "", err
	}
	if schema = cmp.Or(wanted, schema); schema == "" {
		return "", fmt.Errorf("%w: no schema of the search_path is there, and Schema is empty", engine.ErrArgument)
	}
	return schema, checkSchema(schema)
}
