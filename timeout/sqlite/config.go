package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/heartwheel-go/heartwheel/timeout"
)

const (
	defaultPrefix  = "timeout_"
	defaultReaders = 4
	defaultKeepLog = 7 * 24 * time.Hour

	// busy is how long SQLite itself waits for another process; we go on asking until the
	// context of the call ends.
	busy = time.Second
)

// Config is what Open can be told. The zero value of each field means the default.
type Config struct {
	// Sync has each commit wait until it is on the disk, so that it survives even a failure
	// of the power. Without, such a failure can take back the last commits, but not damage
	// the file; a crash of the process takes back nothing either way.
	Sync bool

	// Prefix is what the names of the tables begin with: a letter, then letters, digits and
	// underscores, at most 40 bytes. Empty means "timeout_".
	Prefix string

	// Readers is how many calls read at the same time. There is one connection more, which
	// writes. Zero means 4.
	Readers int

	// KeepLog is for how long executions are kept of a task that is there so long. Those of a
	// task that is gone are gone with it. Zero means 7 days.
	KeepLog time.Duration
}

func (c Config) withDefaults() Config {
	c.Prefix = cmp.Or(c.Prefix, defaultPrefix)
	c.Readers = cmp.Or(c.Readers, defaultReaders)
	c.KeepLog = cmp.Or(c.KeepLog, defaultKeepLog)
	return c
}

var validPrefix = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,39}$`)

func (c Config) check() error {
	if !validPrefix.MatchString(c.Prefix) {
		return fmt.Errorf("%w: Prefix %.60q, must be a letter, then letters, digits and underscores, at most 40 bytes", timeout.ErrArgument, c.Prefix)
	}
	if strings.HasPrefix(strings.ToLower(c.Prefix), "sqlite_") {
		return fmt.Errorf("%w: Prefix %q, must not be sqlite_, which is SQLite's own", timeout.ErrArgument, c.Prefix)
	}
	if c.Readers < 1 || c.Readers > 1000 {
		return fmt.Errorf("%w: Readers %d, must be 1 to 1000", timeout.ErrArgument, c.Readers)
	}
	if c.KeepLog < 0 {
		return fmt.Errorf("%w: KeepLog %v, must not be negative", timeout.ErrArgument, c.KeepLog)
	}
	return nil
}

// Open opens a file, which is made where it is not there, and brings its tables up to date.
// An error that wraps ErrArgument says that path or cfg can't be, one that wraps
// ErrUnsupported that a newer release has made the tables.
func Open(path string, cfg Config) (*Engine, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	name, err := dataSource(path, cfg)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, fmt.Errorf("timeout/sqlite: opening %s: %w", path, err)
	}
	e := newEngine(db, cfg)
	if err := e.start(context.Background()); err != nil {
		_ = e.Close()
		return nil, fmt.Errorf("timeout/sqlite: opening %s: %w", path, err)
	}
	return e, nil
}

// dataSource returns what the driver is told: the path as a URL, so that nothing in it is
// taken for an option.
func dataSource(path string, cfg Config) (string, error) {
	if path == "" || strings.ContainsRune(path, 0) || strings.HasPrefix(path, ":memory:") {
		return "", fmt.Errorf("%w: path %q, must be that of a file: package memory keeps tasks in memory", timeout.ErrArgument, path)
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("timeout/sqlite: path %q: %w", path, err)
	}
	sync := "normal"
	if cfg.Sync {
		sync = "full"
	}
	options := url.Values{"_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busy.Milliseconds()),
		"journal_mode(wal)",
		"synchronous(" + sync + ")",
		"cache_size(-16384)", // KiB, of each connection
	}}
	full = filepath.ToSlash(full)
	if !strings.HasPrefix(full, "/") { // C:/… of Windows
		full = "/" + full
	}
	return (&url.URL{Scheme: "file", Path: full, RawQuery: options.Encode()}).String(), nil
}
