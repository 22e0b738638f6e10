package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/heartwheel-go/heartwheel/tools/internal/command"
)

// drivers are other people's modules for the users of a package or two of ours. Those without a package are
// for our tests.
var drivers = map[string][]string{
	"modernc.org/sqlite":                {"timeout/sqlite"},
	"github.com/jackc/pgx/v5":           {"timeout/postgres"},
	"github.com/redis/go-redis/v9":      {"timeout/redis", "timeout/callback/streamcall", "fleet", "fleet/fleetmetrics"},
	"go.etcd.io/etcd/client/v3":         {"timeout/members/etcd"},
	"github.com/go-zookeeper/zk":        {"timeout/members/zookeeper"},
	"github.com/nats-io/nats.go":        {"timeout/callback/natscall"},
	"github.com/anishathalye/porcupine": nil,
}

// requireOneDriver makes a user of each package of timeout and fleet, and of timeout beside it. The
// graph of this user's modules may have the package's driver, and no other.
func (u *user) requireOneDriver(all []published) error {
	for _, p := range all {
		own := strings.TrimPrefix(p.path, first+"/")
		if root, _, _ := strings.Cut(own, "/"); p.program || p.hidden || root != "timeout" && root != "fleet" {
			continue
		}
		paths := []string{p.path}
		if strings.HasPrefix(own, "timeout/") {
			paths = append(paths, first+"/timeout")
		}
		dir, err := u.importing("of-"+strings.ReplaceAll(own, "/", "-"), paths...)
		if err != nil {
			return err
		}
		graph, err := command.Output(dir, u.env, "go", "mod", "graph")
		if err != nil {
			return err
		}
		for driver, users := range drivers {
			if !slices.Contains(users, own) && strings.Contains(graph, " "+driver+"@") {
				return fmt.Errorf("a user of %s gets %s", own, driver)
			}
		}
	}
	return nil
}
