package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
)

// reloadOn reads the config file again whenever there is a signal.
func (p *program) reloadOn(running context.Context, hup <-chan os.Signal) {
	select {
	case <-p.server.Ready():
	case <-running.Done():
		return
	}
	for {
		select {
		case <-hup:
			p.reload()
		case <-running.Done():
			return
		}
	}
}

// reload puts the file in force, or nothing of it, and logs one line.
func (p *program) reload() {
	if p.server.Draining() {
		p.log.Warn("not reloaded", "error", errNotNow)
		return
	}
	p.systemd.reloading()
	defer p.systemd.ready(p.server)
	changes, err := p.apply()
	// The line comes if the old level or the new one lets it.
	p.level.Set(min(p.level.Level(), p.options.level()))
	defer func() { p.level.Set(p.options.level()) }()
	switch {
	case err != nil:
		p.log.Error("not reloaded, nothing has changed", "error", err)
	case len(changes) == 0:
		p.log.Info("reloaded, nothing has changed", "config", p.options.config)
	default:
		p.log.LogAttrs(context.Background(), slog.LevelInfo, "reloaded", changes...)
	}
}

// apply puts file, environment and flags in force, and returns the changes, from the old value
// to the new.
func (p *program) apply() (changes []slog.Attr, err error) {
	next, err := read(p.args, os.LookupEnv)
	if err != nil {
		return nil, err
	}
	for s := range next.All {
		before, _ := p.options.Find(s.Name)
		from, to := before.Value.String(), s.Value.String()
		switch {
		case from == to:
		case s.Fixed:
			return nil, next.explain(fmt.Errorf("%s %s, can't be changed from %q while the program runs", s.FieldName(), to, from))
		default:
			changes = append(changes, slog.String(s.Name, from+" -> "+to))
		}
	}
	cfg := next.server
	if inForce := p.server.Config(); inForce.Listener != nil {
		cfg.Addr = ""
	}
	p.raiseLimit(cfg)
	if err := p.server.Update(cfg); err != nil {
		return nil, next.explain(err)
	}
	p.options = next
	return changes, nil
}
