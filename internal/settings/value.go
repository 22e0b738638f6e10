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

// value is a setting at p. An error of read leaves it as it is.
type value[T any] struct {
	p    *T
	read func(string) (T, error)
}

func (v value[T]) Get() any       { return *v.p }
func (v value[T]) String() string { return fmt.Sprint(*v.p) }
func (v value[T]) Set(s string) error {
	read, err := v.read(s)
	if err == nil {
		*v.p = read
	}
	return err
}

// Text is any text.
func Text(p *string) flag.Value {
	return value[string]{p, func(s string) (string, error) { return s, nil }}
}

// Address is host:port, or nothing if that is allowed.
func Address(p *string, optional bool) flag.Value {
	return value[string]{p, func(s string) (string, error) {
		if s == "" && optional {
			return s, nil
		}
		_, port, err := net.SplitHostPort(s)
		if err == nil {
			_, err = net.LookupPort("tcp", port)
		}
		if err != nil {
			return "", fmt.Errorf("must be host:port: %w", err)
		}
		return s, nil
	}}
}

// Toggle is true or false. In a file its name alone is true.
func Toggle(p *bool) flag.Value {
	return toggle{value[bool]{p, func(s string) (bool, error) {
		b, err := strconv.ParseBool(s)
		if err != nil {
			err = errors.New("must be true or false")
		}
		return b, err
	}}}
}

type toggle struct{ value[bool] }

func (v toggle) IsBoolFlag() bool { return true }

// Duration is a duration of at least so long.
func Duration(p *time.Duration, least time.Duration) flag.Value {
	return value[time.Duration]{p, func(s string) (time.Duration, error) {
		d, err := time.ParseDuration(s)
		switch {
		case err != nil:
			err = errors.New("must be a duration such as 1m30s")
		case d < least && least == 0:
			err = errors.New("must not be negative")
		case d < least:
			err = fmt.Errorf("must be at least %v", least)
		}
		return d, err
	}}
}

// Number is a whole number from 0 on.
func Number(p *int) flag.Value {
	return value[int]{p, func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		switch {
		case errors.Is(err, strconv.ErrRange):
			err = fmt.Errorf("must be a number up to %d", math.MaxInt)
		case err != nil:
			err = errors.New("must be a whole number")
		case n < 0:
			err = errors.New("must not be negative")
		}
		return n, err
	}}
}

// Share is a share of a whole, or something negative.
func Share(p *float64) flag.Value {
	return value[float64]{p, func(s string) (float64, error) {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || !(f >= -1 && f <= 1) { // nor NaN
			err = errors.New("must be a share such as 0.1")
		}
		return f, err
	}}
}

// Choice is one of several, by what they print as.
func Choice[T any](p *T, options ...T) flag.Value {
	return value[T]{p, func(s string) (none T, err error) {
		for _, option := range options {
			if fmt.Sprint(option) == s {
				return option, nil
			}
		}
		names := strings.Fields(strings.Trim(fmt.Sprint(options), "[]"))
		last := len(names) - 1
		return none, fmt.Errorf("must be %s or %s", strings.Join(names[:last], ", "), names[last])
	}}
}

// Fact is a value that only the program itself can change: a setting to look at.
func Fact(v any) flag.Value { return fact{v} }

type fact struct{ v any }

func (f fact) Get() any         { return f.v }
func (f fact) String() string   { return fmt.Sprint(f.v) }
func (f fact) Set(string) error { return errors.New("can't be set") }
