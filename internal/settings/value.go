package settings

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"
)

// The following are values of settings. Their errors say what is possible; the reader of a source adds
// the value and the name.

// Text is any text.
func Text(p *string) flag.Value { return text{p} }

type text struct{ p *string }

func (v text) String() string     { return *v.p }
func (v text) Set(s string) error { *v.p = s; return nil }

// Address is host:port, or nothing if that is allowed.
func Address(p *string, optional bool) flag.Value { return address{p, optional} }

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

// Toggle is true or false. In a file its name alone is true.
func Toggle(p *bool) flag.Value { return toggle{p} }

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

// Duration is a duration of at least so long.
func Duration(p *time.Duration, least time.Duration) flag.Value { return duration{p, least} }

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

// Number is a whole number from 0 on.
func Number(p *int) flag.Value { return number{p} }

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

// Choice is one of several, by what they print as.
func Choice[T any](p *T, options ...T) flag.Value { return choice[T]{p, options} }

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
