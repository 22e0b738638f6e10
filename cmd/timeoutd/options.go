package main

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"time"
)

// options is what the program has been told.
type options struct {
	addr      string
	insecure  bool
	maxConns  int
	maxBody   int
	maxBatch  int
	readToken []string
	writeTok  []string
	adminTok  []string

	sqlite   string
	sync     bool
	memory   bool
	database string
	redis    string

	node      string
	ttl       time.Duration
	etcd      []string
	zookeeper []string

	etcdUser, etcdPassword string

	callAllow   []netip.Prefix
	callPrivate bool
	callHosts   []string
	callSecrets []string
	nats        string
	natsPrefix  string
	streams     string

	streamsPrefix string

	drainDelay time.Duration
	grace      time.Duration

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
		addr:     "127.0.0.1:8077",
		maxConns: 1024,
		grace:    10 * time.Second,

		streamsPrefix: "events:",

		logFormat: "text",
		logLevel:  "info",
		from:      make(map[string]string),
	}
	o.groups = o.settings()
	return o
}

// settings are all that there are.
func (o *options) settings() []group {
	return []group{
		{"Listening", []setting{
			{name: "addr", value: address{&o.addr, false}, arg: "host:port", help: "address to listen on; port 0 is any free one"},
			{name: "insecure", value: toggle{&o.insecure}, help: "without tokens, listen on other addresses than those of loopback, too: whoever reaches them can do all"},
			{name: "max-conns", value: number{&o.maxConns}, arg: "number", help: "connections at a time; for one more the idlest gives way"},
			{name: "max-body", value: number{&o.maxBody}, arg: "bytes", help: "the longest body of a request (0: 8388608)"},
			{name: "max-batch", value: number{&o.maxBatch}, arg: "number", help: "tasks in one request (0: 1000)"},
		}},
		{"Tokens: several of each, with spaces between them", []setting{
			{name: "read-token", value: list{&o.readToken}, arg: "tokens", help: "lets who has one look at everything", secret: true},
			{name: "write-token", value: list{&o.writeTok}, arg: "tokens", help: "and set, move, remove and replay tasks", secret: true},
			{name: "admin-token", value: list{&o.adminTok}, arg: "tokens", help: "and change and drop topics, and drop what is dead", secret: true},
		}},
		{"Where tasks are kept", []setting{
			{name: "sqlite", value: text{&o.sqlite}, arg: "file", help: "in a file of this machine, if nothing else is said (empty: timeoutd.db in $STATE_DIRECTORY, or in heartwheel/ where programs keep their data)"},
			{name: "sync", value: toggle{&o.sync}, help: "with sqlite, each change waits for the disk, so that it survives a failure of the power too"},
			{name: "database", value: text{&o.database}, arg: "url", help: "in PostgreSQL: postgres://user:password@host/name", variable: "DATABASE_URL", secret: true},
			{name: "redis", value: text{&o.redis}, arg: "url", help: "in Redis: redis://:password@host:6379/0; with a database, Redis is the index in front of it", variable: "REDIS_URL", secret: true},
			{name: "memory", value: toggle{&o.memory}, help: "nowhere: they are gone when the program ends"},
		}},
		{"Which nodes there are", []setting{
			{name: "node", value: text{&o.node}, arg: "name", help: "of this one, and of no other that runs (empty: the machine's, and a random part)"},
			{name: "ttl", value: duration{&o.ttl, 0}, arg: "duration", help: "after how long a silent node's slots are given to others (0: 10s)"},
			{name: "etcd", value: list{&o.etcd}, arg: "endpoints", help: "asked for the nodes in place of the engine", variable: "ETCD_ENDPOINTS"},
			{name: "etcd-user", value: text{&o.etcdUser}, arg: "name", help: "where etcd wants one"},
			{name: "etcd-password", value: text{&o.etcdPassword}, arg: "password", help: "the same", secret: true},
			{name: "zookeeper", value: list{&o.zookeeper}, arg: "servers", help: "the same", variable: "ZOOKEEPER"},
		}},
		{"Callbacks", []setting{
			{name: "callback-allow", value: prefixes{&o.callAllow}, arg: "networks", help: "that may be called by HTTP although they are refused otherwise, such as 127.0.0.0/8"},
			{name: "callback-allow-private", value: toggle{&o.callPrivate}, help: "private networks may be called by HTTP"},
			{name: "callback-hosts", value: list{&o.callHosts}, arg: "names", help: "the only hosts that may be called by HTTP; *.example.com is all below (empty: any)"},
			{name: "callback-secret", value: list{&o.callSecrets}, arg: "secrets", help: "sign HTTP calls: whsec_ and base64 each", secret: true},
			{name: "nats", value: text{&o.nats}, arg: "url", help: "for callbacks to NATS JetStream", variable: "NATS_URL", secret: true},
			{name: "nats-prefix", value: text{&o.natsPrefix}, arg: "text", help: "what each subject must begin with"},
			{name: "streams", value: text{&o.streams}, arg: "url", help: "of the Redis for callbacks to its streams", secret: true},
			{name: "streams-prefix", value: text{&o.streamsPrefix}, arg: "text", help: "what each stream's key must begin with, so that no other key can be written to"},
		}},
		{"Going down", []setting{
			{name: "drain-delay", value: duration{&o.drainDelay, 0}, arg: "duration", help: "how long to go on after the signal, but not ready, for load balancers to notice"},
			{name: "grace", value: duration{&o.grace, 0}, arg: "duration", help: "how long calls may take after that"},
		}},
		{"The program", []setting{
			{name: "config", value: text{&o.config}, arg: "file", help: "more settings: a name and a value per line; the environment (TIMEOUTD_MAX_CONNS and so on) wins over it, and flags over both", local: true},
			{name: "check", value: toggle{&o.check}, help: "only say whether all of this makes sense", local: true},
			{name: "t", value: toggle{&o.check}, help: "the same", local: true},
			{name: "log-format", value: choice[string]{&o.logFormat, []string{"text", "json"}}, arg: "text|json", help: "format of the log"},
			{name: "log-level", value: choice[string]{&o.logLevel, []string{"debug", "info", "warn", "error"}}, arg: "debug|info|warn|error", help: "what is logged"},
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
	flags := flag.NewFlagSet("timeoutd", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // an error is reported once, by the caller
	flags.Usage = func() {}
	for s := range o.all {
		if !s.secret {
			flags.Var(s.value, s.name, s.help)
		}
	}
	return flags
}

// usage prints them in groups.
func usage(w io.Writer) {
	fmt.Fprint(w, "Usage: timeoutd [flags]            serves a timeout centre\n"+
		"       timeoutd COMMAND [flags]    talks to one: timeoutd help lists the commands\n")
	for _, g := range newOptions().groups {
		fmt.Fprintf(w, "\n%s:\n", g.title)
		for _, s := range g.settings {
			name := "-" + s.name
			if s.secret {
				name = "$" + s.env() + ", or in the config file " + s.name
			}
			fmt.Fprintf(w, "  %s\n        %s", strings.TrimSpace(name+" "+s.arg), s.help)
			if s.variable != "" && !s.secret {
				fmt.Fprintf(w, " ($%s)", s.variable)
			}
			switch s.value.String() {
			case "", "0", "0s", "false":
			default:
				fmt.Fprintf(w, " (default %s)", s.value)
			}
			fmt.Fprintln(w)
		}
	}
}
