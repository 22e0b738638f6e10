package main

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	goredis "github.com/redis/go-redis/v9"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/callback/httpcall"
	"github.com/heartwheel-go/heartwheel/timeout/callback/natscall"
	"github.com/heartwheel-go/heartwheel/timeout/callback/streamcall"
)

// openCallers returns the callers by kind. HTTP is always among them. If NATS or Redis can't
// be reached at the start, calls to it fail until it can.
func (o *options) openCallers(ends *closers) (map[string]timeout.Caller, error) {
	cfg, err := o.httpConfig()
	if err != nil {
		return nil, err
	}
	calls, err := httpcall.New(cfg)
	if err != nil {
		return nil, withFlags(err)
	}
	ends.add(calls.Close)
	callers := map[string]timeout.Caller{httpcall.Kind: caller{calls}}
	if o.nats != "" {
		if callers[natscall.Kind], err = o.openNATS(ends); err != nil {
			return nil, err
		}
	}
	if o.streams != "" {
		if callers[streamcall.Kind], err = o.openStreams(ends); err != nil {
			return nil, err
		}
	}
	return callers, nil
}

func (o *options) httpConfig() (cfg httpcall.Config, err error) {
	cfg = o.calls
	cfg.Secrets, err = parseSecrets("callback-secret", o.callSecrets)
	return cfg, err
}

// minFeedbackKey is package timeout's.
const minFeedbackKey = 32

// feedbackKeys returns timeout.Config's.
func (o *options) feedbackKeys() ([][]byte, error) {
	keys, err := parseSecrets("feedback-key", o.feedbackKey)
	if err != nil {
		return nil, err
	}
	secrets, err := parseSecrets("callback-secret", o.callSecrets)
	for i, key := range keys {
		if len(key) < minFeedbackKey {
			return nil, fmt.Errorf("feedback-key %d has %d bytes, must have at least %d", i+1, len(key), minFeedbackKey)
		}
		if slices.ContainsFunc(secrets, func(secret []byte) bool { return bytes.Equal(secret, key) }) {
			return nil, fmt.Errorf("feedback-key %d is a callback-secret, too, must be another one: targets know that", i+1)
		}
	}
	return keys, err
}

func parseSecrets(name string, texts []string) (secrets [][]byte, err error) {
	for _, text := range texts {
		secret, err := httpcall.ParseSecret(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		secrets = append(secrets, secret)
	}
	return secrets, nil
}

func (o *options) openNATS(ends *closers) (timeout.Caller, error) {
	conn, err := nats.Connect(o.nats, nats.Name("timeoutd"), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1))
	if err != nil {
		return nil, fmt.Errorf("nats: %w", err)
	}
	ends.add(func() error { conn.Close(); return nil })
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, fmt.Errorf("nats: %w", err)
	}
	return natscall.New(js, natscall.Config{Prefix: o.natsPrefix})
}

func (o *options) openStreams(ends *closers) (timeout.Caller, error) {
	cfg, err := goredis.ParseURL(o.streams)
	if err != nil {
		return nil, fmt.Errorf("streams at %s: the URL makes no sense", where(o.streams)) // err could contain the password
	}
	cfg.ContextTimeoutEnabled = true
	client := goredis.NewClient(cfg)
	ends.add(client.Close)
	return streamcall.New(client, streamcall.Config{Prefix: o.streamsPrefix})
}
