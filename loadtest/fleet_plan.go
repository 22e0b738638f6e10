package main

import "fmt"

// gatewaySpare is how many descriptors more than connections a gateway needs, which has some
// to Redis.
func gatewaySpare(limit int) int { return 256 + limit/32 }

// slack is how many connections more than its share a node may have for a moment, as clients
// choose the one with the fewest.
const slack = 16

// killed is how many sessions the nodes have that are to be killed: those with the lowest numbers.
func (cfg config) killed() int {
	if cfg.nodes == 0 {
		return 0
	}
	return divideUp(cfg.kill*cfg.conns, cfg.nodes)
}

// returning is how many of them come back.
func (cfg config) returning() int { return int(cfg.back * float64(cfg.killed())) }

// mostOfNode is how many connections a node has at most.
func (cfg config) mostOfNode() int {
	switch {
	case cfg.rolling: // one is missing
		return divideUp(cfg.conns, cfg.nodes-1) + slack
	case cfg.kill > 0:
		return divideUp(cfg.conns-cfg.killed()+cfg.returning(), cfg.nodes-cfg.kill) + slack
	}
	return divideUp(cfg.conns, cfg.nodes) + slack
}

// fits returns an error where a node would have more connections than descriptors.
func (p plan) fits(cfg config) error {
	room, most := p.limit-gatewaySpare(p.limit), max(cfg.mostOfNode(), divideUp(cfg.conns, cfg.nodes))
	if most <= room {
		return nil
	}
	return fmt.Errorf("-conns %d: up to %d are on one of -nodes %d, and there is room for %d in the %d descriptors of a process (see ulimit -n)",
		cfg.conns, most, cfg.nodes, room, p.limit)
}
