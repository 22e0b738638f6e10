package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// opened is an engine with a name for people.
type opened struct {
	engine.Engine
	name string

	// oldest returns how long the oldest transaction of the database has been open. Nil means that this does not matter.
	oldest func(context.Context) (time.Duration, error)
}

// openEngine opens the engine named by the options, or SQLite if they name none.
func (o *options) openEngine(ctx context.Context, log *slog.Logger) (opened, error) {
	switch {
	case o.memory:
		return openMemory()
	case len(o.database) == 0 && o.redis != "":
		return openRedis(ctx, o.redis, o.redisVolatile, log)
	}
	var table opened
	var err error
	queue, name := o.queue(log)
	if len(o.database) > 0 {
		table, err = openPostgres(ctx, o.database, o.listen, queue, log)
	} else {
		table, err = openSQLite(ctx, o.sqlite, o.sync, queue, log)
	}
	if queue != nil {
		table.name += ", with " + name + " in front of it"
	}
	return table, err
}

// sqlitePath returns the absolute path of a file. An empty path means timeoutd.db in the data directory, which it
// makes. The directory of another path must be there: a missing one is that of a volume not mounted, or a mistake.
func sqlitePath(path string) (string, error) {
	if path == "" {
		dir, err := dataDir()
		if err == nil {
			err = os.MkdirAll(dir, 0o700)
		}
		return filepath.Join(dir, "timeoutd.db"), err
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(path)
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("the directory %s of the sqlite file %s is not there: make it, or mount its volume", dir, filepath.Base(path))
	case err != nil:
		return "", err
	case !info.IsDir():
		return "", fmt.Errorf("%s, with the sqlite file %s in it, is no directory (%v), must be one", dir, filepath.Base(path), info.Mode().Type())
	}
	return path, nil
}

// dataDir returns the directory for the program's data: systemd's, or the one in the XDG base
// directory specification.
func dataDir() (string, error) {
	if dir := os.Getenv("STATE_DIRECTORY"); dir != "" {
		return filepath.SplitList(dir)[0], nil
	}
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "heartwheel"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("there is no directory for sqlite, say which file: %w", err)
	}
	return filepath.Join(home, ".local", "share", "heartwheel"), nil
}

// where returns the host and path of a URL, without its secrets.
func where(text string) string {
	u, err := url.Parse(text)
	if err != nil || strings.Contains(u.RawQuery+u.Fragment, "@") { // a question mark or a number sign in a password
		return ""
	}
	place := u.Host + u.Path
	return place[strings.LastIndexByte(place, '@')+1:] // a password of digits and a slash looks like a port and a path
}
