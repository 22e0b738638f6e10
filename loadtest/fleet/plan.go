package fleet

import "fmt"

// spareFiles is how many descriptors a gateway needs besides its connections. Some are for Redis.
func spareFiles(limit int) int { return 256 + limit/32 }

// slack is how many connections a node may have above its share for a moment, since clients choose the
// node with the fewest.
const slack = 16

func divideUp(a, b int) int { return (a + b - 1) / b }

// killed is the number of sessions of the nodes to be killed. They have the lowest numbers.
func (cfg Config) killed() int { return divideUp(cfg.Kill*cfg.Conns, max(cfg.Nodes, 1)) }

// returning is the number of those sessions to come back.
func (cfg Config) returning() int { return int(cfg.Back * float64(cfg.killed())) }

// mostLater is the largest number of connections of a node after an event.
func (cfg Config) mostLater() int {
	switch {
	case cfg.Rolling: // one is missing
		return divideUp(cfg.Conns, cfg.Nodes-1) + slack
	case cfg.Kill > 0:
		return divideUp(cfg.Conns-cfg.killed()+cfg.returning(), cfg.Nodes-cfg.Kill) + slack
	}
	return divideUp(cfg.Conns, cfg.Nodes) + slack
}

// most is the largest number of connections of a node.
func (cfg Config) most() int { return max(cfg.mostLater(), divideUp(cfg.Conns, cfg.Nodes)) }

// Fits returns an error if a node has more connections than descriptors. limit is the number of these.
func (cfg Config) Fits(limit int) error {
	room, most := limit-spareFiles(limit), cfg.most()
	if most <= room {
		return nil
	}
	return fmt.Errorf("-conns %d: up to %d are on one of -nodes %d, and there is room for %d in the %d descriptors of a process (see ulimit -n)",
		cfg.Conns, most, cfg.Nodes, room, limit)
}
