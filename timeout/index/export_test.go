package index

// Leases returns the number of leases known to the engine.
func (e *Engine) Leases() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.leases)
}

// Rest is the pause after a failure of the index.
const Rest = rest
