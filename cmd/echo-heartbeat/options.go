package main

import (
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/heartwheel-go/heartwheel/debughttp"
	"github.com/heartwheel-go/heartwheel/internal/settings"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/pool"
	"github.com/heartwheel-go/heartwheel/server"
)

// options are the program's settings.
type options struct {
	server    server.Config
	admin     string
	debug     debughttp.Config
	config    string
	check     bool
	logFormat string
	logLevel  string

	*settings.Set // the same, by name and group
}

func newOptions() *options {
	o := &options{
		server:    server.Config{Addr: "127.0.0.1:9000", Config: keepalive.Config{Timeout: 30 * time.Second}},
		debug:     debughttp.Config{Hosts: debughttp.Hosts{Setting: "-admin-hosts"}},
		logFormat: "text",
		logLevel:  "info",
	}
	o.Set = settings.New("echo-heartbeat", "there are only flags", o.groups())
	return o
}

// groups returns all settings. A zero means the default of server and keepalive.
func (o *options) groups() []settings.Group {
	s := &o.server
	return []settings.Group{
		{Title: "Listening", Settings: []settings.Setting{
			fix(settings.Setting{Name: "addr", Value: settings.Address(&s.Addr, false), Arg: "host:port", Help: "address to listen on; port 0 is any free one, and a socket from systemd takes its place"}),
			fix(settings.Setting{Name: "loops", Value: settings.Number(&s.Loops), Arg: "number", Help: "event loops (0: one per processor)"}),
			{Name: "max-line", Value: settings.Number(&s.MaxLine), Arg: "bytes", Help: "the longest line (0: 65536)"},
			{Name: "max-outbound", Value: settings.Number(&s.MaxOutbound), Arg: "bytes", Help: "how much may wait for a peer that does not read (0: 1048576)"},
		}},
		{Title: "Silence", Settings: []settings.Setting{
			{Name: "timeout", Value: settings.Duration(&s.Timeout, time.Millisecond), Arg: "duration", Help: "how long a connection may be without a whole line"},
			fix(settings.Setting{Name: "tick", Value: settings.Duration(&s.Tick, 0), Arg: "duration", Help: "how precise that is; a connection is closed two ticks late at most (0: 10ms, less for a timeout under 100ms, and an idle server may be 100ms later)"}),
			{Name: "first-message", Value: settings.Duration(&s.FirstMessage, 0), Arg: "duration", Help: "how long until the first line (0: as the timeout)"},
			{Name: "probe-after", Value: settings.Duration(&s.Probe.After, 0), Arg: "duration", Help: "silence after which a peer is sent PING (0: never, or half of the timeout if one of the next two is set)"},
			{Name: "probe-timeout", Value: settings.Duration(&s.Probe.Timeout, 0), Arg: "duration", Help: "how long it may take to answer (0: what is left of the timeout)"},
			{Name: "probe-count", Value: settings.Number(&s.Probe.Count), Arg: "number", Help: "how many of them may go unanswered (0: 1)"},
			{Name: "advise", Value: settings.Toggle(&s.Advise), Help: "find out a good timeout, and log it at the end"},
			{Name: "dry-run", Value: settings.Toggle(&s.Closing.DryRun), Help: "close nobody, only count"},
		}},
		{Title: "Age and rates", Settings: []settings.Setting{
			{Name: "max-age", Value: settings.Duration(&s.Age.Max, 0), Arg: "duration", Help: "how old a connection may become (0: any age)"},
			{Name: "max-age-jitter", Value: share{&s.Age.Jitter}, Arg: "share", Help: "by up to how much of that earlier (0: 0.1; negative: none)"},
			{Name: "max-age-grace", Value: settings.Duration(&s.Age.Grace, 0), Arg: "duration", Help: "how much longer after GOAWAY (0: no GOAWAY)"},
			{Name: "min-beat", Value: settings.Duration(&s.Rate.MinBeat, 0), Arg: "duration", Help: "the shortest time between two lines, on average (0: any)"},
			{Name: "min-rate", Value: settings.Number(&s.Rate.MinBytes), Arg: "bytes", Help: "per second, the least from a peer that sends anything (0: any)"},
			{Name: "strikes", Value: settings.Number(&s.Rate.Strikes), Arg: "number", Help: "after how many times in a row a rule is broken a connection is closed (0: 3)"},
		}},
		{Title: "Room", Settings: []settings.Setting{
			{Name: "max-conns", Value: settings.Number(&s.Room.MaxConns), Arg: "number", Help: "connections at a time (0: as many as the descriptor limit has room for)"},
			{Name: "max-per-key", Value: settings.Number(&s.Room.MaxPerKey), Arg: "number", Help: "connections of an IPv4 address or a /64 of IPv6 (0: any number)"},
			fix(settings.Setting{Name: "full", Value: settings.Choice(&s.Room.Full, pool.Reject, pool.Wait, pool.EvictIdlest), Arg: "reject|evict", Help: "what happens to one more: it is refused, or the idlest gives way"}),
			fix(settings.Setting{Name: "evict-min-idle", Value: settings.Duration(&s.Room.MinIdle, 0), Arg: "duration", Help: "how long the idlest must have been silent for that (0: 1s, or the timeout if that is less)"}),
			{Name: "pressure-timeout", Value: settings.Duration(&s.Room.Pressure.Timeout, 0), Arg: "duration", Help: "what the timeout becomes as descriptors run out (0: it stays)"},
			{Name: "pressure-low", Value: share{&s.Room.Pressure.Low}, Arg: "share", Help: "of the descriptors, from where on (0: 0.85)"},
			{Name: "pressure-high", Value: share{&s.Room.Pressure.High}, Arg: "share", Help: "and where it is reached (0: 0.95)"},
		}},
		{Title: "Closing", Settings: []settings.Setting{
			{Name: "close-mode", Value: settings.Choice(&s.Closing.Mode, keepalive.CloseGraceful, keepalive.CloseHalf, keepalive.CloseReset), Arg: "graceful|half|reset", Help: "how; half waits until the peer has read the farewell"},
			{Name: "farewell-timeout", Value: settings.Duration(&s.Closing.Timeout, 0), Arg: "duration", Help: "how long a farewell may take (0: 1s)"},
			{Name: "max-close-per-second", Value: settings.Number(&s.Closing.MaxPerSecond), Arg: "number", Help: "for all but the end of the program (0: any number)"},
		}},
		{Title: "Going down", Settings: []settings.Setting{
			{Name: "drain-delay", Value: settings.Duration(&s.DrainDelay, 0), Arg: "duration", Help: "how long to go on after the signal, but not ready, for load balancers to notice"},
			{Name: "drain", Value: settings.Duration(&s.Drain, 0), Arg: "duration", Help: "over how long the goodbyes are spread after that"},
			{Name: "shutdown-timeout", Value: settings.Duration(&s.ShutdownTimeout, 0), Arg: "duration", Help: "how long both may take (0: 10s more than that)"},
		}},
		{Title: "The program", Settings: []settings.Setting{
			fix(settings.Setting{Name: "admin", Value: settings.Address(&o.admin, true), Arg: "host:port", Help: "address of /healthz, /readyz, /metrics and /debug/wheel (empty: none)"}),
			fix(settings.Setting{Name: "admin-hosts", Value: hosts{&o.debug.Hosts}, Arg: "name,...", Help: "names in requests to it, besides IP addresses and localhost (empty: none)"}),
			fix(settings.Setting{Name: "debug-allow-remote", Value: settings.Toggle(&o.debug.AllowRemote), Help: "let /debug/wheel answer other machines, too"}),
			fix(settings.Setting{Name: "debug-hide-addrs", Value: settings.Toggle(&o.debug.HideAddrs), Help: "show names there that stand for the peers' addresses"}),
			{Name: "config", Value: settings.Text(&o.config), Arg: "file", Help: "more settings: a name and a value per line, read again on SIGHUP; the environment (ECHO_HEARTBEAT_MAX_AGE and so on) wins over it, and flags over both", Local: true},
			{Name: "check", Value: settings.Toggle(&o.check), Help: "only say whether all of this makes sense", Local: true},
			{Name: "t", Value: settings.Toggle(&o.check), Help: "the same", Local: true},
			fix(settings.Setting{Name: "log-format", Value: settings.Choice(&o.logFormat, "text", "json"), Arg: "text|json", Help: "format of the log"}),
			{Name: "log-level", Value: settings.Choice(&o.logLevel, "debug", "info", "warn", "error"), Arg: "debug|info|warn|error", Help: "what is logged; debug has a line per connection"},
		}},
	}
}

// level is the lowest level in the log.
func (o *options) level() (level slog.Level) {
	_ = level.UnmarshalText([]byte(o.logLevel)) // the setting allows no other names
	return level
}

// usage prints the settings in groups.
func usage(w io.Writer) {
	fmt.Fprintln(w, "Usage: echo-heartbeat [flags]")
	newOptions().Usage(w)
}
