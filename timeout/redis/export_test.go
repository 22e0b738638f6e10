package redis

// OnStep has a function called before each step of what takes several; its error ends that.
func (e *Engine) OnStep(step func(name string) error) { e.step = step }

// Prefix is the engine's Config.Prefix.
func (e *Engine) Prefix() string { return e.cfg.Prefix }
