package redis

import "github.com/heartwheel-go/heartwheel/timeout/engine"

// OnStep has a function called before each step of longer work. Its error ends the work.
func (e *Engine) OnStep(step func(name string) error) { e.step = step }

// Prefix is the engine's Config.Prefix.
func (e *Engine) Prefix() string { return e.cfg.Prefix }

// CopyTags are the hash tags of the copies of the records.
var CopyTags = copyTags

// SlotKey returns a key of a slot of a known topic.
func (e *Engine) SlotKey(topic string, slot int) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.layouts[topic].places[slot].keys[0].(string)
}

// Owe makes the engine owe a slot of the topic an outcome.
func (e *Engine) Owe(topic string) { e.owed.keep(topic, []engine.Outcome{{}}) }

// Knows reports whether the engine remembers a topic.
func (e *Engine) Knows(topic string) bool { return e.known(topic) != nil }
