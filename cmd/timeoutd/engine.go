package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// opened is an engine, and what people call it.
type opened struct {
	timeout.Engine
	name string
}

// openEngine opens what the options say: SQLite if they say nothing.
func (o *options) openEngine(ctx context.Context, log *slog.Logger) (opened, error) {
	switch {
	case o.memory:
		return openMemory()
	case len(o.database) > 0 && o.redis != "":
		return openIndexed(ctx, o.redis, o.database, log)
	case len(o.database) > 0:
		return openPostgres(ctx, o.database, log)
	case o.redis != "":
		return openRedis(ctx, o.redis)
	default:
		return openSQLite(ctx, o.sqlite, o.sync, log)
	}
}

// sqlitePath returns where the file is, and makes its directory.
func sqlitePath(path string) (string, error) {
	if path == "" {
		dir, err := dataDir()
		if err != nil {
			return "", err
		}
		path = filepath.Join(dir, "timeoutd.db")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return path, os.MkdirAll(filepath.Dir(path), 0o700)
}

// dataDir is where programs keep what is theirs: what systemd says, or the XDG base
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

// where is a URL without its secrets.
func where(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Host + u.Path
}
