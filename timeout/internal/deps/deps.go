// Package deps names the modules that packages which are being written will need, so that
// they share one go.mod meanwhile.
package deps

import (
	_ "github.com/anishathalye/porcupine"
	_ "github.com/cenkalti/backoff/v5"
	_ "github.com/go-zookeeper/zk"
	_ "github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/nats-io/nats-server/v2/server"
	_ "github.com/nats-io/nats.go"
	_ "github.com/nats-io/nats.go/jetstream"
	_ "github.com/redis/go-redis/v9"
	_ "github.com/sony/gobreaker/v2"
	_ "go.etcd.io/etcd/client/v3"
	_ "go.uber.org/goleak"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/time/rate"
	_ "modernc.org/sqlite"

	_ "github.com/heartwheel-go/heartwheel/wheel"
)
