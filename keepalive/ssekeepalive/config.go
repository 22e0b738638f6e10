package ssekeepalive

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

const (
	// defaultInterval is the advice of the HTML standard: proxies close a silent connection after 30 s and more.
	defaultInterval = 15 * time.Second

	defaultWriteTimeout = 15 * time.Second

	minTime = 10 * time.Millisecond // ten of the wheel's shortest ticks
	maxTime = 24 * time.Hour

	maxComment = 4096

	// maxTick is the longest tick of the wheel. Short times have a shorter one: see tick.
	maxTick = 100 * time.Millisecond
)

// Config is what a [Streams] can be told. The zero value is useful.
type Config struct {
	// Interval is how long a stream may be quiet until it gets a comment, and again after each comment. The comment is
	// never early, and at most 4 % or 200 ms late, whichever is less, but 2 ms on short times. Zero means 15 s; at
	// least 10 ms, and at most a day.
	Interval time.Duration

	// WriteTimeout is how long a Write or a Flush of a stream may take, of the program's as of a comment. A longer
	// one ends the stream, see [ErrSlowReader]. A Write of more than 64 KB has this time for each 64 KB, so a slow
	// reader that goes on to read may take its time. Time in which this process was stopped does not count.
	//
	// It takes the place of http.Server.WriteTimeout, which would end the stream that long after the request. A
	// deadline that the handler sets by http.ResponseController holds for the handler's own writes, as always.
	//
	// Zero means 15 s, or Interval if that is longer; negative means no bound; otherwise at least 10 ms, and at most a
	// day. A time so short that this process itself may need it for a write, when it has too few processors, ends
	// readers without need. A stream is visited once in WriteTimeout, so one much shorter than Interval costs a little.
	WriteTimeout time.Duration

	// Comment is the text of the comments, after the colon and a space. It must be one line of at most 4096 bytes. The
	// default is no text: ": \n\n".
	Comment string

	// Logger gets a line per panic of a ResponseWriter at Error, a line about the first encoded stream at Warn, and
	// a line per slow reader at Debug. Nil means silence.
	Logger *slog.Logger
}

func (cfg Config) withDefaults() (Config, error) {
	cfg.Interval = cmp.Or(cfg.Interval, defaultInterval)
	cfg.WriteTimeout = cmp.Or(cfg.WriteTimeout, max(cfg.Interval, defaultWriteTimeout))
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case cfg.Interval < minTime || cfg.Interval > maxTime:
		return cfg, fmt.Errorf("%w: Interval %v, must be between %v and %v", ErrArgument, cfg.Interval, minTime, maxTime)
	case cfg.WriteTimeout > 0 && cfg.WriteTimeout < minTime || cfg.WriteTimeout > maxTime:
		return cfg, fmt.Errorf("%w: WriteTimeout %v, must be between %v and %v, or negative for no bound",
			ErrArgument, cfg.WriteTimeout, minTime, maxTime)
	case len(cfg.Comment) > maxComment:
		return cfg, fmt.Errorf("%w: Comment of %d bytes, must have at most %d", ErrArgument, len(cfg.Comment), maxComment)
	case strings.ContainsAny(cfg.Comment, "\r\n"):
		return cfg, fmt.Errorf("%w: Comment %q, must be one line", ErrArgument, cfg.Comment)
	}
	return cfg, nil
}

// hop returns the longest time between two visits of a stream.
func (cfg Config) hop() time.Duration {
	if cfg.WriteTimeout < 0 {
		return cfg.Interval
	}
	return min(cfg.Interval, cfg.WriteTimeout)
}

// tick returns the tick of the wheel: what is late by two ticks is late by 4 % of its time.
func (cfg Config) tick() time.Duration {
	return max(time.Millisecond, min(maxTick, (cfg.hop()/50).Truncate(time.Millisecond)))
}
