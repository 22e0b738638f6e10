package index

// Leases returns how many leases an engine knows.
func (e *Engine) Leases() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.leases)
}

// Rest is how long an index that has failed is left alone.
const Rest = rest
