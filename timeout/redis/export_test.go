package redis

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
	return e.layouts[topic].partitions[slot].keys[0].(string)
}

// Knows reports whether the engine remembers a topic.
func (e *Engine) Knows(topic string) bool { return e.known(topic) != nil }

// Suppose has the engine suppose that a slot of a known topic has something due.
func (e *Engine) Suppose(topic string, slot int) { e.known(topic).due.set(slot, 1) }
