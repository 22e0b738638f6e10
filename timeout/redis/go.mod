module github.com/heartwheel-go/heartwheel/timeout/redis

go 1.26.0

require github.com/stretchr/testify v1.12.1

require github.com/netresearch/go-cron v0.9.1 // indirect

require (
	github.com/cenkalti/backoff/v5 v5.0.3 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/heartwheel-go/heartwheel v0.1.0
	github.com/heartwheel-go/heartwheel/internal/redisrun v0.1.0
	github.com/heartwheel-go/heartwheel/timeout v0.1.0
	github.com/redis/go-redis/v9 v9.23.0
	go.uber.org/atomic v1.12.0 // indirect
	go.uber.org/goleak v1.3.0
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sync v0.24.0
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/time v0.16.0 // indirect
)
