package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/heartwheel-go/heartwheel/cmd/timeoutd/internal/api"
	"github.com/heartwheel-go/heartwheel/cmd/timeoutd/internal/peers"
	"github.com/heartwheel-go/heartwheel/timeout/callback/httpcall"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/members/zookeeper"
	"github.com/heartwheel-go/heartwheel/timeout/redis"
)

// validate checks the settings against each other. Its error names the ones in conflict.
func (o *options) validate() error {
	if err := o.checkTogether(); err != nil {
		return err
	}
	_, tls := o.openTLS(slog.New(slog.DiscardHandler))
	return errors.Join(tls, o.checkTokens(), o.checkCenter(), o.checkDatabases(),
		checkRedis("redis", o.redis), checkRedis("streams", o.streams), checkNATS(o.nats), o.checkMembers(), o.checkPeers(), o.checkCallbacks())
}

// checkTogether returns an error for settings that don't go together, or need each other. An address beyond loopback needs
// tokens, unless -insecure allows it.
func (o *options) checkTogether() error {
	var broken []error
	server := len(o.database) > 0 || o.redis != ""
	for _, rule := range []struct {
		broken bool
		says   string
	}{
		{!o.insecure && len(o.tokens()) == 0 && !isLoopback(o.addr), fmt.Sprintf("addr %s can be reached from other machines and there are no tokens: "+
			"set one ($TIMEOUTD_ADMIN_TOKEN, or admin-token in the config file), or -insecure where everybody may do all", o.addr)},
		{(o.tlsCert == "") != (o.tlsKey == ""), fmt.Sprintf("tls-cert %q and tls-key %q, must be both or none", o.tlsCert, o.tlsKey)},
		{o.center.Concurrency > engine.MaxConcurrency, fmt.Sprintf("concurrency %d, must be 0 to %d", o.center.Concurrency, engine.MaxConcurrency)},
		{o.knownTopics && o.center.MaxTopics != 0, fmt.Sprintf("known-topics is there together with max-topics %d, must be one of them", o.center.MaxTopics)},
		{o.memory && (o.sqlite != "" || server), "memory is there together with sqlite, database or redis, must be alone"},
		{o.sync && (o.memory || server), "sync is there together with memory, database or redis, must be with sqlite"},
		{o.sqlite != "" && server, fmt.Sprintf("sqlite %s is there together with database or redis, must be alone", o.sqlite)},
		{o.index && (o.memory || o.redis != ""), "index is there together with memory or redis, must be with sqlite or database"},
		{o.redisVolatile && (o.redis == "" || len(o.database) > 0), "redis-volatile is there, must be with redis, and without database"}, // an index may forget what it has
		{o.redisExecutions != 0 && (o.redis == "" || len(o.database) > 0), fmt.Sprintf("redis-executions %d is there, must be with redis, and without database", o.redisExecutions)},
		{o.redisExecutions > redis.MaxExecutions, fmt.Sprintf("redis-executions %d, must be 0 to %d", o.redisExecutions, redis.MaxExecutions)},
		{len(o.listen) > 0 && len(o.listen) != len(o.database), fmt.Sprintf("database-listen has %d URLs and database has %d, must be one for each", len(o.listen), len(o.database))},
		{len(o.etcd) > 0 && len(o.zookeeper) > 0, fmt.Sprintf("etcd %q and zookeeper %q, must be one of them", o.etcd, o.zookeeper)},
		{len(o.etcd) == 0 && o.etcdUser+o.etcdPassword != "", "etcd-user or etcd-password is there without etcd, must be with it"},
		{(o.etcdUser == "") != (o.etcdPassword == ""), "etcd-user and etcd-password, must be both or none"}, // the client would use neither
		{len(o.peers) > 0 && len(o.tokens()) > 0 && len(o.readToken) == 0, "peers is there without a read-token, must have one: other nodes are asked with it"},
		{o.natsPrefix != "" && o.nats == "", fmt.Sprintf("nats-prefix %.60q is there without nats, must be with it", o.natsPrefix)},
		{o.streamsPrefix != streamsPrefix && o.streams == "", fmt.Sprintf("streams-prefix %.60q is there without streams, must be with it", o.streamsPrefix)},
	} {
		if rule.broken {
			broken = append(broken, errors.New(rule.says))
		}
	}
	return errors.Join(broken...)
}

func isLoopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	addr, parseErr := netip.ParseAddr(host)
	return err == nil && (host == "localhost" || parseErr == nil && addr.IsLoopback())
}

// tokens returns the tokens of all scopes.
func (o *options) tokens() (tokens []api.Token) {
	for _, scope := range []struct {
		secrets []string
		is      api.Scope
	}{{o.readToken, api.Read}, {o.writeTok, api.Write}, {o.adminTok, api.Admin}} {
		for _, secret := range scope.secrets {
			tokens = append(tokens, api.Token{Secret: secret, Scope: scope.is})
		}
	}
	for _, text := range o.workTok {
		topic, secret, _ := strings.Cut(text, "=")
		tokens = append(tokens, api.Token{Secret: secret, Scope: api.Work, Topic: topic})
	}
	return tokens
}

func (o *options) checkTokens() error {
	for i, text := range o.workTok { // whose topic can be its secret, if there is no =
		if topic, _, _ := strings.Cut(text, "="); engine.CheckTopic(topic) != nil {
			return fmt.Errorf("work-token %d has no topic, must be as orders=TOKEN", i+1)
		}
	}
	return withFlags(o.serving().Validate())
}

func (o *options) checkCenter() error {
	cfg, err := o.centerConfig()
	if err == nil {
		err = cfg.Validate()
	}
	return withFlags(err)
}

func (o *options) checkDatabases() error {
	schemes := []string{"postgres", "postgresql"}
	if err := cmp.Or(checkURLs("database-listen", schemes, o.listen...), checkURLs("database", schemes, o.database...)); err != nil {
		return err
	}
	for i, text := range o.database {
		if slices.Contains(o.database[:i], text) {
			return fmt.Errorf("database %d of %d is there twice", i+1, len(o.database))
		}
	}
	return nil
}

// checkURLs does not show a URL in its error: it can have a password. An empty one passes.
func checkURLs(name string, schemes []string, texts ...string) error {
	for _, text := range texts {
		u, err := url.Parse(text)
		switch {
		case text == "":
		case err != nil:
			return fmt.Errorf("%s is no URL", name)
		case !slices.Contains(schemes, u.Scheme):
			return fmt.Errorf("%s is a URL of scheme %q, must be one of %q", name, u.Scheme, schemes)
		case u.Opaque != "": // clients would take localhost
			return fmt.Errorf("%s is a URL without a host, must begin with %s://", name, u.Scheme)
		case u.Fragment != "": // what is before it would be taken for a host and a port, and told
			return fmt.Errorf("%s is a URL with a number sign, must have none: a password has %%23 for it", name)
		case u.Host != "" && strings.Contains(u.EscapedPath()+"?"+u.RawQuery, "@"): // the same with another mark in a password
			return fmt.Errorf("%s is a URL with an @ behind its host, must have none: a password has %%2F for a slash and %%3F for a question mark, "+
				"and another @ is %%40", name)
		}
	}
	return nil
}

// checkNATS takes a list of URLs, as the client does: it splits at each comma, even at one of a password. A part without a
// scheme has that of NATS. Such a URL has no path and no query, so these are the rest of a password.
func checkNATS(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part != "" && !strings.Contains(part, "://") {
			part = "nats://" + part
		}
		if err := checkURLs("nats", []string{"nats", "tls", "ws", "wss"}, part); err != nil {
			return fmt.Errorf("%w; a password has %%2C for a comma", err)
		}
		u, _ := url.Parse(part) // no error: it is checked
		if !strings.HasPrefix(u.Scheme, "ws") && strings.Trim(u.Path, "/")+u.RawQuery != "" {
			return errors.New("nats is a URL with a path or a query, must have none: a password has %2F for a slash, " +
				"%3F for a question mark and %2C for a comma")
		}
	}
	return nil
}

func checkRedis(name, text string) error {
	if err := checkURLs(name, []string{"redis", "rediss", "unix"}, text); err != nil || text == "" {
		return err
	}
	if _, err := goredis.ParseURL(text); err != nil {
		return fmt.Errorf("%s is no URL of a Redis, must be as redis://:password@host:6379/0", name)
	}
	return nil
}

func (o *options) checkMembers() error {
	if len(o.zookeeper) == 0 {
		return nil
	}
	return tried(zookeeper.Open(o.zookeeper, zookeeper.Config{}))
}

func (o *options) checkPeers() error {
	if err := checkURLs("peers", []string{"http", "https"}, o.peers...); err != nil {
		return err
	}
	if err := tried(peers.New(o.peers, "")); err != nil {
		return fmt.Errorf("peers: %w", err)
	}
	return nil
}

// peerToken is what other nodes are asked with.
func (o *options) peerToken() string {
	if len(o.readToken) == 0 {
		return ""
	}
	return api.PeerToken(o.readToken[0])
}

func (o *options) checkCallbacks() error {
	cfg, err := o.httpConfig()
	if err == nil {
		err = tried(httpcall.New(cfg))
	}
	return withFlags(err)
}

// tried closes a thing that was made only to see whether its settings make sense. It does nothing yet.
func tried(c io.Closer, err error) error {
	if err != nil {
		return err
	}
	return c.Close()
}
