package main

import (
	"fmt"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/settings"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/callback/httpcall"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

// streamsPrefix is the default of the setting.
const streamsPrefix = "events:"

// The values of the setting migrate.
const (
	migrateAuto  = "auto"
	migrateNever = "never"
	migrateOnly  = "only"
	migratePrint = "print"
)

// options are the program's settings.
type options struct {
	addr      string
	tlsCert   string
	tlsKey    string
	insecure  bool
	maxConns  int
	maxBody   int
	maxBatch  int
	readToken []string
	workTok   []string
	writeTok  []string
	adminTok  []string

	sqlite   string
	sync     bool
	memory   bool
	index    bool
	database []string
	listen   []string // for the news of each database
	redis    string

	redisVolatile   bool
	redisExecutions int

	migrate string

	center timeout.Config // but what has a setting of its own here

	peers     []string
	etcd      []string
	zookeeper []string

	etcdUser, etcdPassword string

	calls       httpcall.Config // without its secrets
	callSecrets []string
	feedbackKey []string
	nats        string
	natsPrefix  string
	streams     string

	streamsPrefix string

	knownTopics bool
	drainDelay  time.Duration

	config    string
	check     bool
	logFormat string
	logLevel  string

	*settings.Set // the same, by name and group
}

func newOptions() *options {
	o := &options{
		addr:     "127.0.0.1:8077",
		maxConns: 1024,
		center:   timeout.Config{Grace: 10 * time.Second, All: true},

		streamsPrefix: streamsPrefix,
		migrate:       migrateAuto,

		logFormat: "text",
		logLevel:  "info",
	}
	o.Set = settings.New("timeoutd", "the server has only flags, and a command comes first", o.groups())
	return o
}

// groups lists all settings.
func (o *options) groups() []settings.Group {
	return []settings.Group{
		{Title: "Listening", Settings: []settings.Setting{
			{Name: "addr", Value: settings.Address(&o.addr, false), Arg: "host:port", Help: "address to listen on; port 0 is any free one"},
			{Name: "tls-cert", Value: settings.Text(&o.tlsCert), Arg: "file", Help: "speak HTTPS with the certificate in this file, as PEM with those between it and the root; it is read again when it changes"},
			{Name: "tls-key", Value: settings.Text(&o.tlsKey), Arg: "file", Help: "its private key, as PEM"},
			{Name: "insecure", Value: settings.Toggle(&o.insecure), Help: "without tokens, listen on other addresses than those of loopback, too: whoever reaches them can do all"},
			{Name: "max-conns", Value: settings.Number(&o.maxConns), Arg: "number", Help: "connections at a time; for one more the idlest gives way (0: any number)"},
			{Name: "max-body", Value: settings.Number(&o.maxBody), Arg: "bytes", Help: "the longest body of a request (0: 8388608)"},
			{Name: "max-batch", Value: settings.Number(&o.maxBatch), Arg: "number", Help: "tasks in one request (0: 1000)"},
		}},
		{Title: "Tokens: several of each, with spaces between them", Settings: []settings.Setting{
			{Name: "read-token", Value: list{&o.readToken}, Arg: "tokens", Help: "lets who has one look at everything, but for the secrets of callbacks", Secret: true},
			{Name: "work-token", Value: list{&o.workTok}, Arg: "topic=token", Help: "lets who has one pull the tasks of that topic, and nothing else", Secret: true},
			{Name: "write-token", Value: list{&o.writeTok}, Arg: "tokens", Help: "and set, move, remove, replay and pull tasks", Secret: true},
			{Name: "admin-token", Value: list{&o.adminTok}, Arg: "tokens", Help: "and change and drop topics, and drop what is dead", Secret: true},
		}},
		{Title: "Where tasks are kept", Settings: []settings.Setting{
			{Name: "sqlite", Value: settings.Text(&o.sqlite), Arg: "file", Help: "in a file of this machine, in a directory that is there, if nothing else is said; several are separated as in $PATH, see database (empty: timeoutd.db in $STATE_DIRECTORY, or in heartwheel/ where programs keep their data)"},
			{Name: "sync", Value: settings.Toggle(&o.sync), Help: "with sqlite, each change waits for the disk, so that it survives a failure of the power too"},
			{Name: "database", Value: urls{&o.database}, Arg: "urls", Help: "in PostgreSQL: postgres://user:password@host/name; in several databases, with spaces between them, each has a part of the tasks, and neither their number nor their order can change later", Variable: "DATABASE_URL", Secret: true},
			{Name: "database-listen", Value: urls{&o.listen}, Arg: "urls", Help: "with database, the server itself, to listen on for what other nodes set, if database is a pooler such as PgBouncer: nobody can listen through one in transaction mode; of several databases one each, in the same order (empty: database)", Secret: true},
			{Name: "redis", Value: settings.Text(&o.redis), Arg: "url", Help: "in Redis: redis://:password@host:6379/0; with a database, Redis is the index in front of it", Variable: "REDIS_URL", Secret: true},
			{Name: "redis-volatile", Value: settings.Toggle(&o.redisVolatile), Help: "the Redis may keep nothing on disk: then all tasks are gone when it ends"},
			{Name: "redis-executions", Value: settings.Number(&o.redisExecutions), Arg: "number", Help: fmt.Sprintf("how many ended attempts of each task Redis keeps, at most %d (0: none); without a database", redis.MaxExecutions)},
			{Name: "index", Value: settings.Toggle(&o.index), Help: "in SQLite or PostgreSQL, with a queue in memory in front: it has the keys of what is due soon, and loses nothing with the program (see the README for what it costs)"},
			{Name: "migrate", Value: settings.Choice(&o.migrate, migrateAuto, migrateNever, migrateOnly, migratePrint), Arg: "auto|never|only|print", Help: "what to do about tables of SQLite or PostgreSQL that are missing or of an earlier version: change them, refuse to start, change them and end, or print the SQL and end; back them up before, since an earlier version refuses them then"},
			{Name: "memory", Value: settings.Toggle(&o.memory), Help: "nowhere: they are gone when the program ends"},
		}},
		{Title: "Topics", Settings: []settings.Setting{
			{Name: "concurrency", Value: settings.Number(&o.center.Concurrency), Arg: "number", Help: "tasks of all topics together that this node runs at the same time; if more are due, the priorities of the topics decide (0: no such limit)"},
			{Name: "max-topics", Value: settings.Number(&o.center.MaxTopics), Arg: "number", Help: "how many topics there may be for a task to make another one; an admin-token can make any number (0: 256)"},
			{Name: "known-topics", Value: settings.Toggle(&o.knownTopics), Help: "tasks make no topics: an admin-token makes them first"},
		}},
		{Title: "Which nodes there are", Settings: []settings.Setting{
			{Name: "node", Value: settings.Text(&o.center.Node), Arg: "name", Help: "of this one, and of no other that runs (empty: the machine's, and a random part)"},
			{Name: "ttl", Value: settings.Duration(&o.center.TTL, 0), Arg: "duration", Help: "after how long a silent node's slots are given to others (0: 10s)"},
			{Name: "peers", Value: urls{&o.peers}, Arg: "urls", Help: "of the nodes, such as http://10.0.0.2:8077, with spaces between them: they are asked for their figures, so that the page has the sums of all, with a token made of the first read-token that is good for nothing else; if a name has several addresses, all are asked (empty: the page has the figures of one node)"},
			{Name: "etcd", Value: list{&o.etcd}, Arg: "endpoints", Help: "asked for the nodes in place of the engine", Variable: "ETCD_ENDPOINTS"},
			{Name: "etcd-user", Value: settings.Text(&o.etcdUser), Arg: "name", Help: "for an etcd that wants one; with a password"},
			{Name: "etcd-password", Value: settings.Text(&o.etcdPassword), Arg: "password", Help: "of that user", Secret: true},
			{Name: "zookeeper", Value: list{&o.zookeeper}, Arg: "servers", Help: "asked for the nodes in place of the engine", Variable: "ZOOKEEPER"},
		}},
		{Title: "Callbacks", Settings: []settings.Setting{
			{Name: "callback-allow", Value: prefixes{&o.calls.Allow}, Arg: "networks", Help: "that may be called by HTTP although they are refused otherwise, such as 127.0.0.0/8"},
			{Name: "callback-allow-private", Value: settings.Toggle(&o.calls.AllowPrivate), Help: "private networks may be called by HTTP"},
			{Name: "callback-hosts", Value: list{&o.calls.Hosts}, Arg: "names", Help: "the only hosts that may be called by HTTP; *.example.com is all below (empty: any)"},
			{Name: "callback-secret", Value: list{&o.callSecrets}, Arg: "secrets", Help: "sign HTTP calls: whsec_ and base64 each", Secret: true},
			{Name: "feedback-key", Value: list{&o.feedbackKey}, Arg: "secrets", Help: "sign the lease tokens in calls, so that one is enough for /v1/feedback and /v1/extend: whsec_ and base64 each, of at least 32 bytes and the same on all nodes; the first one signs (empty: they need a work-token or a write-token)", Secret: true},
			{Name: "nats", Value: settings.Text(&o.nats), Arg: "url", Help: "for callbacks to NATS JetStream", Variable: "NATS_URL", Secret: true},
			{Name: "nats-prefix", Value: settings.Text(&o.natsPrefix), Arg: "text", Help: "what each subject must begin with"},
			{Name: "streams", Value: settings.Text(&o.streams), Arg: "url", Help: "of the Redis for callbacks to its streams", Secret: true},
			{Name: "streams-prefix", Value: settings.Text(&o.streamsPrefix), Arg: "text", Help: "what each stream's key must begin with, so that no other key can be written to"},
		}},
		{Title: "Going down", Settings: []settings.Setting{
			{Name: "drain-delay", Value: settings.Duration(&o.drainDelay, 0), Arg: "duration", Help: "how long to go on after the signal, but not ready, for load balancers to notice"},
			{Name: "grace", Value: settings.Duration(&o.center.Grace, 0), Arg: "duration", Help: "how long calls may take after that"},
		}},
		{Title: "The program", Settings: []settings.Setting{
			{Name: "config", Value: settings.Text(&o.config), Arg: "file", Help: "more settings: a name and a value per line; the environment (TIMEOUTD_MAX_CONNS and so on) wins over it, and flags over both", Local: true},
			{Name: "check", Value: settings.Toggle(&o.check), Help: "only say whether all of this makes sense", Local: true},
			{Name: "t", Value: settings.Toggle(&o.check), Help: "the same", Local: true},
			{Name: "log-format", Value: settings.Choice(&o.logFormat, "text", "json"), Arg: "text|json", Help: "format of the log"},
			{Name: "log-level", Value: settings.Choice(&o.logLevel, "debug", "info", "warn", "error"), Arg: "debug|info|warn|error", Help: "what is logged"},
		}},
	}
}

// read reads the settings. The environment wins over the config file, and flags win over both.
// The error is one line and names the source of the value.
func read(args []string, env func(string) (string, bool)) (o *options, err error) {
	_, err = settings.Read(func() *settings.Set { o = newOptions(); return o.Set }, args, env)
	return o, err
}
