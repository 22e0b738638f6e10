package main

import (
	"fmt"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/members/etcd"
	"github.com/heartwheel-go/heartwheel/timeout/members/zookeeper"
)

// openMembers returns the register of nodes, or nil if the engine is the register.
func (o *options) openMembers(ends *closers) (engine.Members, error) {
	switch {
	case len(o.etcd) > 0:
		members, err := etcd.Open(o.etcd, etcd.Config{Username: o.etcdUser, Password: o.etcdPassword})
		if err != nil {
			return nil, fmt.Errorf("etcd: %w", err)
		}
		ends.add(members.Close)
		return members, nil
	case len(o.zookeeper) > 0:
		members, err := zookeeper.Open(o.zookeeper, zookeeper.Config{})
		if err != nil {
			return nil, fmt.Errorf("zookeeper: %w", err)
		}
		ends.add(members.Close)
		return members, nil
	default:
		return nil, nil
	}
}
