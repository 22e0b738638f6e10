package zookeeper

// Nodes returns how many nodes of this process are kept.
func (m *Members) Nodes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.nodes)
}
