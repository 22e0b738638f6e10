package main

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// setting is one thing that the program can be told, by a flag, a line of the config
// file, or the environment, by the same name.
type setting struct {
	name  string
	value flag.Value
	arg   string // what the help calls the value
	help  string

	variable string // its name in the environment, where others have given it one
	local    bool   // is for the command line only
	secret   bool   // is not for the command line, which everybody on the machine can see
}

// env is its name in the environment.
func (s setting) env() string {
	if s.variable != "" {
		return s.variable
	}
	return "TIMEOUTD_" + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
}

// shown is a value for an error.
func (s setting) shown(value string) string {
	if s.secret {
		return "(hidden)"
	}
	return fmt.Sprintf("%.*q", maxShown, value)
}

// What follows are values of flags. Their errors say what is possible; the value and
// the name are added by whoever knows where it comes from.

type text struct{ p *string }

func (v text) String() string     { return *v.p }
func (v text) Set(s string) error { *v.p = s; return nil }

// address is host:port, or nothing where that is possible.
type address struct {
	p        *string
	optional bool
}

func (v address) String() string { return *v.p }
func (v address) Set(s string) error {
	if s != "" || !v.optional {
		_, port, err := net.SplitHostPort(s)
		if err == nil {
			_, err = net.LookupPort("tcp", port)
		}
		if err != nil {
			return fmt.Errorf("must be host:port: %w", err)
		}
	}
	*v.p = s
	return nil
}

type toggle struct{ p *bool }

func (v toggle) String() string   { return strconv.FormatBool(*v.p) }
func (v toggle) IsBoolFlag() bool { return true }
func (v toggle) Set(s string) (err error) {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return errors.New("must be true or false")
	}
	*v.p = b
	return nil
}

type duration struct {
	p     *time.Duration
	least time.Duration
}

func (v duration) String() string { return v.p.String() }
func (v duration) Set(s string) error {
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return errors.New("must be a duration such as 1m30s")
	case d < v.least && v.least == 0:
		return errors.New("must not be negative")
	case d < v.least:
		return fmt.Errorf("must be at least %v", v.least)
	}
	*v.p = d
	return nil
}

type number struct{ p *int }

func (v number) String() string { return strconv.Itoa(*v.p) }
func (v number) Set(s string) error {
	n, err := strconv.Atoi(s)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("must be a number up to %d", math.MaxInt)
	case err != nil:
		return errors.New("must be a whole number")
	case n < 0:
		return errors.New("must not be negative")
	}
	*v.p = n
	return nil
}

// list is words with spaces or commas between them.
type list struct{ p *[]string }

func (v list) String() string { return strings.Join(*v.p, " ") }
func (v list) Set(s string) error {
	*v.p = strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
	return nil
}

// prefixes is a list of networks.
type prefixes struct{ p *[]netip.Prefix }

func (v prefixes) String() string { return strings.Trim(fmt.Sprint(*v.p), "[]") }
func (v prefixes) Set(s string) error {
	var words []string
	_ = list{&words}.Set(s)
	*v.p = nil
	for _, word := range words {
		prefix, err := netip.ParsePrefix(word)
		if err != nil {
			return fmt.Errorf("must be networks such as 127.0.0.0/8: %w", err)
		}
		*v.p = append(*v.p, prefix)
	}
	return nil
}

type choice[T any] struct {
	p       *T
	options []T
}

func (v choice[T]) String() string { return fmt.Sprint(*v.p) }
func (v choice[T]) Set(s string) error {
	for _, option := range v.options {
		if fmt.Sprint(option) == s {
			*v.p = option
			return nil
		}
	}
	names := strings.Fields(strings.Trim(fmt.Sprint(v.options), "[]"))
	last := len(names) - 1
	return fmt.Errorf("must be %s or %s", strings.Join(names[:last], ", "), names[last])
}
