package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxFile is the most bytes of a config file: far more than there are settings.
const maxFile = 1 << 20

// maxShown is how much of a line is shown that makes no sense: it may be the whole of a
// file that is none of text.
const maxShown = 80

// read returns what the program is told: by the config file, the environment, which wins
// over it, and the flags, which win over both. Its error is one line and names where the
// value comes from.
func read(args []string, env func(string) (string, bool)) (*options, error) {
	// The flags come last, but they say which file it is, and what is wrong with them
	// is said first.
	flags := newOptions()
	if err := flags.readFlags(args); err != nil {
		return nil, err
	}
	path := flags.config
	if value, ok := env("TIMEOUTD_CONFIG"); ok && path == "" {
		path = value
	}
	o := newOptions()
	if path != "" {
		if err := o.readFile(path); err != nil {
			return nil, err
		}
	}
	if err := o.readEnv(env); err != nil {
		return nil, err
	}
	if err := o.readFlags(args); err != nil {
		return nil, err
	}
	o.config = path
	return o, nil
}

func (o *options) readFlags(args []string) error {
	flags := o.flags()
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: the server has only flags, and a command comes first", flags.Arg(0))
	}
	flags.Visit(func(f *flag.Flag) { delete(o.from, f.Name) })
	return nil
}

func (o *options) readEnv(env func(string) (string, bool)) error {
	for s := range o.all {
		value, ok := env(s.env())
		if !ok || s.local {
			continue
		}
		if err := s.value.Set(value); err != nil {
			return fmt.Errorf("%s: invalid value %s for %s: %w", s.env(), s.shown(value), s.name, err)
		}
		o.from[s.name] = s.env()
	}
	return nil
}

// readFile reads a config file. It must be a regular one, which ends.
func (o *options) readFile(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("config: %s is no regular file (%v), must be one", path, info.Mode().Type())
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	defer f.Close()
	return o.parse(f, path)
}

// parse reads lines: a name, and after a space its value, up to the end of the line. For
// what is true or false the name alone says true. Empty lines and those that begin with
// # are skipped.
func (o *options) parse(r io.Reader, path string) error {
	limited := &io.LimitedReader{R: r, N: maxFile + 1}
	lines := bufio.NewScanner(limited)
	lines.Buffer(nil, maxFile+1)
	seen := make(map[string]int)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at := fmt.Sprintf("%s:%d", path, n)
		name, err := o.setLine(line)
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		if first := seen[name]; first > 0 {
			return fmt.Errorf("%s: %s is in line %d already, must be there once", at, name, first)
		}
		seen[name], o.from[name] = n, at
	}
	if err := lines.Err(); err != nil && !errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("config: %w", err)
	}
	if limited.N <= 0 {
		return fmt.Errorf("%s: longer than %d bytes, must be at most that", path, maxFile)
	}
	return nil
}

// setLine does what a line says.
func (o *options) setLine(line string) (name string, err error) {
	name, value := line, ""
	if i := strings.IndexAny(line, " \t"); i >= 0 {
		name, value = line[:i], strings.TrimSpace(line[i:])
	}
	s, ok := o.find(name)
	switch {
	case !ok:
		return name, fmt.Errorf("unknown name %.*q, must be that of a flag, with its value after a space", maxShown, name)
	case s.local:
		return name, fmt.Errorf("%s is for the command line only", name)
	}
	if _, ok := s.value.(toggle); ok && name == line {
		value = "true"
	}
	if err := s.value.Set(value); err != nil {
		return name, fmt.Errorf("invalid value %s for %s: %w", s.shown(value), name, err)
	}
	return name, nil
}
