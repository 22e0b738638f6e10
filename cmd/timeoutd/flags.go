package main

import (
	"context"
	"strings"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// flagNames are the settings for what errors of packages timeout and httpcall name.
var flagNames = strings.NewReplacer(
	"must be public or in Allow (or AllowPrivate)", "must be public, or allowed by -callback-allow or -callback-allow-private",
	"must be public or in Allow", "must be public, or allowed by -callback-allow",
	"must be one of Hosts", "must be one of -callback-hosts",
	"invalid argument: Hosts ", "invalid argument: -callback-hosts ",
	"invalid argument: Allow ", "invalid argument: -callback-allow ",
	"invalid argument: TTL ", "invalid argument: -ttl ",
	"invalid argument: Node ", "invalid argument: -node ",
	"invalid argument: MaxBody ", "invalid argument: -max-body ",
)

// inFlags is an error whose text names flags in place of fields.
type inFlags struct{ error }

func (e inFlags) Error() string { return flagNames.Replace(e.error.Error()) }
func (e inFlags) Unwrap() error { return e.error }

// withFlags returns err as inFlags. Of nil it is nil.
func withFlags(err error) error {
	if err == nil {
		return nil
	}
	return inFlags{err}
}

// caller is a timeout.Caller with errors for people who set flags.
type caller struct{ timeout.Caller }

func (c caller) Check(call timeout.Callback) error { return withFlags(c.Caller.Check(call)) }

func (c caller) Call(ctx context.Context, task timeout.Task, call timeout.Callback) error {
	return withFlags(c.Caller.Call(ctx, task, call))
}
