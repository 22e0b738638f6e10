package settings

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

// maxShown is the longest part of a line in an error: the line may be the whole of a binary file.
const maxShown = 80

// Read has a program be told: by the config file, the environment, before it, and the flags, before
// both. fresh returns a set without values. Read calls it again for each reading; its last set has all
// values. Read returns the config file, if there is one. Its error is one line and names the source of
// the value.
func Read(fresh func() *Set, args []string, env func(string) (string, bool)) (path string, err error) {
	// The flags come last, but they name the file, and their faults are said first.
	flags := fresh()
	if err := flags.readFlags(args); err != nil {
		return "", err
	}
	config, _ := flags.Find("config")
	path = config.Value.String()
	if value, ok := env(flags.env(config)); ok && path == "" {
		path = value
	}
	s := fresh()
	if path != "" {
		if err := s.readFile(path); err != nil {
			return "", err
		}
	}
	if err := s.readEnv(env); err != nil {
		return "", err
	}
	return path, s.readFlags(args)
}

func (s *Set) readFlags(args []string) error {
	flags := flag.NewFlagSet(s.Program, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // an error is reported once, by the caller
	flags.Usage = func() {}
	for setting := range s.All {
		if !setting.Secret {
			flags.Var(setting.Value, setting.Name, setting.Help)
		}
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: %s", flags.Arg(0), s.Stray)
	}
	flags.Visit(func(f *flag.Flag) { delete(s.From, f.Name) })
	return nil
}

func (s *Set) readEnv(env func(string) (string, bool)) error {
	for setting := range s.All {
		name := s.env(setting)
		value, ok := env(name)
		if !ok || setting.Local {
			continue
		}
		if err := setting.Value.Set(value); err != nil {
			return fmt.Errorf("%s: invalid value %s for %s: %w", name, setting.shown(value), setting.Name, err)
		}
		s.From[setting.Name] = name
	}
	return nil
}

// readFile reads a config file. It must be a regular one: others may have no end, and can not be read
// again.
func (s *Set) readFile(path string) error {
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
	return s.Parse(f, path)
}

// Parse reads lines: a name, and after a space its value, up to the end of the line. The name of a
// boolean alone says true. It skips empty lines and those beginning with #.
func (s *Set) Parse(r io.Reader, path string) error {
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
		name, err := s.setLine(line)
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		if first := seen[name]; first > 0 {
			return fmt.Errorf("%s: %s is in line %d already, must be there once", at, name, first)
		}
		seen[name], s.From[name] = n, at
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
func (s *Set) setLine(line string) (name string, err error) {
	name, value := line, ""
	if i := strings.IndexAny(line, " \t"); i >= 0 {
		name, value = line[:i], strings.TrimSpace(line[i:])
	}
	setting, ok := s.Find(name)
	switch {
	case !ok:
		return name, fmt.Errorf("unknown name %.*q, must be that of a flag, with its value after a space", maxShown, name)
	case setting.Local:
		return name, fmt.Errorf("%s is for the command line only", name)
	}
	if _, ok := setting.Value.(toggle); ok && name == line {
		value = "true"
	}
	if err := setting.Value.Set(value); err != nil {
		return name, fmt.Errorf("invalid value %s for %s: %w", setting.shown(value), name, err)
	}
	return name, nil
}
