package caddykeepalive

import (
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// UnmarshalCaddyfile reads the options of a Caddyfile:
//
//	heartwheel {
//		idle       <duration>
//		first_byte <duration>
//		max_age    <duration> [<grace>]
//		per_client <number>
//		max_conns  <number> [reject|wait|evict]
//		drain      <duration>
//	}
func (w *ListenerWrapper) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name
	if d.NextArg() {
		return d.ArgErr()
	}
	seen := map[string]bool{}
	for d.NextBlock(0) {
		option := d.Val()
		if seen[option] {
			return d.Errf("%s, must be given once", option)
		}
		seen[option] = true
		if err := w.option(d, option, d.RemainingArgs()); err != nil {
			return err
		}
	}
	if err := w.Validate(); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

// option reads one option and its values.
func (w *ListenerWrapper) option(d *caddyfile.Dispenser, option string, values []string) error {
	to := map[string][]any{
		"idle":       {&w.Idle},
		"first_byte": {&w.FirstByte},
		"max_age":    {&w.MaxAge, &w.MaxAgeGrace},
		"per_client": {&w.PerClient},
		"max_conns":  {&w.MaxConns, &w.Full},
		"drain":      {&w.Drain},
	}[option]
	switch {
	case to == nil:
		return d.Errf("unknown option %q, must be idle, first_byte, max_age, per_client, max_conns or drain", option)
	case len(values) == 0 || len(values) > len(to):
		return d.Errf("%s with %d values, must have at least 1 and at most %d", option, len(values), len(to))
	}
	for i, value := range values {
		switch field := to[i].(type) {
		case *caddy.Duration:
			read, err := caddy.ParseDuration(value)
			if err != nil {
				return d.Errf("%s %q, must be a duration such as 1m30s", option, value)
			}
			*field = caddy.Duration(read)
		case *int:
			read, err := strconv.Atoi(value)
			if err != nil {
				return d.Errf("%s %q, must be a whole number", option, value)
			}
			*field = read
		case *string:
			*field = value
		}
	}
	return nil
}

// What Caddy asks of a listener wrapper.
var (
	_ caddy.ListenerWrapper = (*ListenerWrapper)(nil)
	_ caddy.Provisioner     = (*ListenerWrapper)(nil)
	_ caddy.Validator       = (*ListenerWrapper)(nil)
	_ caddy.CleanerUpper    = (*ListenerWrapper)(nil)
	_ caddyfile.Unmarshaler = (*ListenerWrapper)(nil)
)
