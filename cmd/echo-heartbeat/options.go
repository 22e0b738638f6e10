package main

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/debughttp"
	"github.com/heartwheel-go/heartwheel/internal/keepersettings"
	"github.com/heartwheel-go/heartwheel/internal/settings"
	"github.com/heartwheel-go/heartwheel/keepalive"
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
	listening := settings.Group{Title: "Listening", Settings: []settings.Setting{
		{Name: "addr", Value: settings.Address(&s.Addr, false), Fixed: true, Arg: "host:port", Help: "address to listen on; port 0 is any free one, and a socket from systemd takes its place"},
		{Name: "proxies", Field: "Proxies.Trusted", Value: networks{&s.Proxies.Trusted}, Fixed: true, Arg: "network,...", Help: "networks of load balancers, such as 10.0.0.0/8: their connections begin with a header of the PROXY protocol, and others are not let in (empty: no headers)"},
		{Name: "proxies-optional", Field: "Proxies.Optional", Value: settings.Toggle(&s.Proxies.Optional), Fixed: true, Help: "let connections without a header in, too, and those from elsewhere"},
		{Name: "loops", Value: settings.Number(&s.Loops), Fixed: true, Arg: "number", Help: "event loops (0: one per processor)"},
		{Name: "max-line", Value: settings.Number(&s.MaxLine), Arg: "bytes", Help: "the longest line (0: 65536)"},
		{Name: "max-outbound", Value: settings.Number(&s.MaxOutbound), Arg: "bytes", Help: "how much may wait for a peer that does not read (0: 1048576)"},
	}}
	return slices.Concat([]settings.Group{listening}, keepersettings.Groups(&s.Config), []settings.Group{
		{Title: "Going down", Settings: []settings.Setting{
			{Name: "drain-delay", Value: settings.Duration(&s.DrainDelay, 0), Arg: "duration", Help: "how long to go on after the signal, but not ready, for load balancers to notice"},
			{Name: "drain", Value: settings.Duration(&s.Drain, 0), Arg: "duration", Help: "over how long the goodbyes are spread after that"},
			{Name: "shutdown-timeout", Value: settings.Duration(&s.ShutdownTimeout, 0), Arg: "duration", Help: "how long both may take (0: 10s more than that)"},
		}},
		{Title: "The program", Settings: []settings.Setting{
			{Name: "admin", Value: settings.Address(&o.admin, true), Fixed: true, Arg: "host:port", Help: "address of /healthz, /readyz, /metrics and /debug/wheel (empty: none)"},
			{Name: "admin-hosts", Value: hosts{&o.debug.Hosts}, Fixed: true, Arg: "name,...", Help: "names in requests to it, besides IP addresses and localhost (empty: none)"},
			{Name: "debug-allow-remote", Value: settings.Toggle(&o.debug.AllowRemote), Fixed: true, Help: "let /debug/wheel answer other machines, too"},
			{Name: "debug-hide-addrs", Value: settings.Toggle(&o.debug.HideAddrs), Fixed: true, Help: "show names there that stand for the peers' addresses"},
			{Name: "config", Value: settings.Text(&o.config), Arg: "file", Help: "more settings: a name and a value per line, read again on SIGHUP; the environment (ECHO_HEARTBEAT_MAX_AGE and so on) wins over it, and flags over both", Local: true},
			{Name: "check", Value: settings.Toggle(&o.check), Help: "only say whether all of this makes sense", Local: true},
			{Name: "t", Value: settings.Toggle(&o.check), Help: "the same", Local: true},
			{Name: "log-format", Value: settings.Choice(&o.logFormat, "text", "json"), Fixed: true, Arg: "text|json", Help: "format of the log"},
			{Name: "log-level", Value: settings.Choice(&o.logLevel, "debug", "info", "warn", "error"), Arg: "debug|info|warn|error", Help: "what is logged; debug has a line per connection"},
		}},
	})
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
