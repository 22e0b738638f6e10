package main

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/debughttp"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/pool"
	"github.com/heartwheel-go/heartwheel/server"
)

// options is what the program has been told.
type options struct {
	server    server.Config
	admin     string
	debug     debughttp.Config
	config    string
	check     bool
	logFormat string
	logLevel  string

	groups []group
	from   map[string]string // where what was given comes from, by name, if not from a flag
}

// group is settings that belong together.
type group struct {
	title    string
	settings []setting
}

func newOptions() *options {
	o := &options{
		server: server.Config{
			Addr:    "127.0.0.1:9000",
			Timeout: 30 * time.Second,
		},
		logFormat: "text",
		logLevel:  "info",
		from:      make(map[string]string),
	}
	o.groups = o.settings()
	return o
}

// settings are all that there are. A zero says what server and keepalive say of it.
func (o *options) settings() []group {
	s, k := &o.server, &o.server.Keepalive
	return []group{
		{"Listening", []setting{
			fix(setting{name: "addr", value: address{&s.Addr, false}, arg: "host:port", help: "address to listen on; port 0 is any free one, and a socket from systemd takes its place"}),
			fix(setting{name: "loops", value: number{&s.Loops}, arg: "number", help: "event loops (0: one per processor)"}),
			{name: "max-line", value: number{&s.MaxLine}, arg: "bytes", help: "the longest line (0: 65536)"},
			{name: "max-outbound", value: number{&s.MaxOutbound}, arg: "bytes", help: "how much may wait for a peer that does not read (0: 1048576)"},
		}},
		{"Silence", []setting{
			{name: "timeout", value: duration{&s.Timeout, time.Millisecond}, arg: "duration", help: "how long a connection may be without a whole line"},
			fix(setting{name: "tick", value: duration{&s.Tick, 0}, arg: "duration", help: "how precise that is (0: 100ms, less for a timeout under 1s)"}),
			{name: "first-message", value: duration{&k.FirstMessage, 0}, arg: "duration", help: "how long until the first line (0: as the timeout)"},
			{name: "probe-after", value: duration{&k.ProbeAfter, 0}, arg: "duration", help: "silence after which a peer is sent PING (0: never, or half of the timeout where one of the next two is set)"},
			{name: "probe-timeout", value: duration{&k.ProbeTimeout, 0}, arg: "duration", help: "how long it may take to answer (0: what is left of the timeout)"},
			{name: "probe-count", value: number{&k.ProbeCount}, arg: "number", help: "how many of them may go unanswered (0: 1)"},
			{name: "advise", value: toggle{&k.Advise}, help: "find out what the timeout should be, which is logged at the end"},
			{name: "dry-run", value: toggle{&k.DryRun}, help: "close nobody, only count"},
		}},
		{"Age and rates", []setting{
			{name: "max-age", value: duration{&k.MaxAge, 0}, arg: "duration", help: "how old a connection may become (0: any age)"},
			{name: "max-age-jitter", value: share{&k.MaxAgeJitter}, arg: "share", help: "by up to how much of that earlier (0: 0.1; negative: none)"},
			{name: "max-age-grace", value: duration{&k.MaxAgeGrace, 0}, arg: "duration", help: "how much longer after GOAWAY (0: no GOAWAY)"},
			{name: "min-beat", value: duration{&k.MinBeat, 0}, arg: "duration", help: "the shortest time between two lines, on average (0: any)"},
			{name: "min-rate", value: number{&k.MinRate}, arg: "bytes", help: "per second, the least from a peer that sends anything (0: any)"},
			{name: "strikes", value: number{&k.Strikes}, arg: "number", help: "after how many times in a row a rule is broken a connection is closed (0: 3)"},
		}},
		{"Room", []setting{
			{name: "max-conns", value: number{&s.MaxConns}, arg: "number", help: "connections at a time (0: as many as the descriptor limit has room for)"},
			{name: "max-per-key", value: number{&k.MaxPerKey}, arg: "number", help: "connections of an IPv4 address or a /64 of IPv6 (0: any number)"},
			fix(setting{name: "full", value: choice[pool.Full]{&k.Full, []pool.Full{pool.Reject, pool.Wait, pool.EvictIdlest}}, arg: "reject|evict", help: "what happens to one more: it is refused, or the idlest gives way"}),
			fix(setting{name: "evict-min-idle", value: duration{&k.EvictMinIdle, 0}, arg: "duration", help: "how long the idlest must have been silent for that (0: ten ticks)"}),
			{name: "pressure-timeout", value: duration{&k.PressureTimeout, 0}, arg: "duration", help: "what the timeout becomes as descriptors run out (0: it stays)"},
			{name: "pressure-low", value: share{&k.PressureLow}, arg: "share", help: "of the descriptors, from where on (0: 0.85)"},
			{name: "pressure-high", value: share{&k.PressureHigh}, arg: "share", help: "and where it is reached (0: 0.95)"},
		}},
		{"Closing", []setting{
			{name: "close-mode", value: choice[keepalive.CloseMode]{&k.CloseMode, []keepalive.CloseMode{keepalive.CloseGraceful, keepalive.CloseHalf, keepalive.CloseReset}}, arg: "graceful|half|reset", help: "how; half waits until the peer has read the farewell"},
			{name: "farewell-timeout", value: duration{&k.FarewellTimeout, 0}, arg: "duration", help: "how long a farewell may take (0: 1s)"},
			{name: "max-close-per-second", value: number{&k.MaxClosePerSecond}, arg: "number", help: "for all but the end of the program (0: any number)"},
		}},
		{"Going down", []setting{
			{name: "drain-delay", value: duration{&s.DrainDelay, 0}, arg: "duration", help: "how long to go on after the signal, but not ready, for load balancers to notice"},
			{name: "drain", value: duration{&s.Drain, 0}, arg: "duration", help: "over how long the goodbyes are spread after that"},
			{name: "shutdown-timeout", value: duration{&s.ShutdownTimeout, 0}, arg: "duration", help: "how long both may take (0: 10s more than that)"},
		}},
		{"The program", []setting{
			fix(setting{name: "admin", value: address{&o.admin, true}, arg: "host:port", help: "address of /healthz, /readyz, /metrics and /debug/wheel (empty: none)"}),
			fix(setting{name: "debug-allow-remote", value: toggle{&o.debug.AllowRemote}, help: "let /debug/wheel answer other machines, too"}),
			fix(setting{name: "debug-hide-addrs", value: toggle{&o.debug.HideAddrs}, help: "show names there that stand for the peers' addresses"}),
			{name: "config", value: text{&o.config}, arg: "file", help: "more settings: a name and a value per line, read again on SIGHUP; the environment (ECHO_HEARTBEAT_MAX_AGE and so on) wins over it, and flags over both", local: true},
			{name: "check", value: toggle{&o.check}, help: "only say whether all of this makes sense", local: true},
			{name: "t", value: toggle{&o.check}, help: "the same", local: true},
			fix(setting{name: "log-format", value: choice[string]{&o.logFormat, []string{"text", "json"}}, arg: "text|json", help: "format of the log"}),
			{name: "log-level", value: choice[string]{&o.logLevel, []string{"debug", "info", "warn", "error"}}, arg: "debug|info|warn|error", help: "what is logged; debug has a line per connection"},
		}},
	}
}

// level is the least that is logged.
func (o *options) level() (level slog.Level) {
	_ = level.UnmarshalText([]byte(o.logLevel)) // there are no other names
	return level
}

// all goes through the settings.
func (o *options) all(yield func(setting) bool) {
	for _, g := range o.groups {
		for _, s := range g.settings {
			if !yield(s) {
				return
			}
		}
	}
}

// find returns the setting of a name.
func (o *options) find(name string) (setting, bool) {
	for s := range o.all {
		if s.name == name {
			return s, true
		}
	}
	return setting{}, false
}

// flags returns a set of flags that sets them.
func (o *options) flags() *flag.FlagSet {
	flags := flag.NewFlagSet("echo-heartbeat", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // an error is reported once, by the caller
	flags.Usage = func() {}
	for s := range o.all {
		flags.Var(s.value, s.name, s.help)
	}
	return flags
}

// usage prints them in groups.
func usage(w io.Writer) {
	fmt.Fprintln(w, "Usage: echo-heartbeat [flags]")
	for _, g := range newOptions().groups {
		fmt.Fprintf(w, "\n%s:\n", g.title)
		for _, s := range g.settings {
			fmt.Fprintf(w, "  %s\n        %s", strings.TrimSpace("-"+s.name+" "+s.arg), s.help)
			switch s.value.String() {
			case "", "0", "0s", "false":
			default:
				fmt.Fprintf(w, " (default %s)", s.value)
			}
			fmt.Fprintln(w)
		}
	}
}
