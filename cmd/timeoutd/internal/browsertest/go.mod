module github.com/heartwheel-go/heartwheel/cmd/timeoutd/internal/browsertest

go 1.26.0

replace (
	github.com/heartwheel-go/heartwheel => ../../../../
	github.com/heartwheel-go/heartwheel/cmd/timeoutd => ../../
	github.com/heartwheel-go/heartwheel/internal/browsertest => ../../../../internal/browsertest
	github.com/heartwheel-go/heartwheel/timeout => ../../../../timeout
)

require (
	github.com/chromedp/chromedp v0.22.1
	github.com/heartwheel-go/heartwheel/cmd/timeoutd v0.1.0
	github.com/heartwheel-go/heartwheel/internal/browsertest v0.0.0
	github.com/heartwheel-go/heartwheel/timeout v0.1.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cenkalti/backoff/v5 v5.0.3 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/chromedp/cdproto v0.159.1 // indirect
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
	github.com/heartwheel-go/heartwheel v0.1.0 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/netresearch/go-cron v0.9.1 // indirect
	github.com/prometheus/client_golang v1.25.0 // indirect
	github.com/prometheus/client_model v0.6.3 // indirect
	github.com/prometheus/common v0.72.0 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	golang.org/x/time v0.16.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace github.com/heartwheel-go/heartwheel/internal/redisrun => ../../../../internal/redisrun

replace github.com/heartwheel-go/heartwheel/timeout/sqlite => ../../../../timeout/sqlite

replace github.com/heartwheel-go/heartwheel/timeout/postgres => ../../../../timeout/postgres

replace github.com/heartwheel-go/heartwheel/timeout/redis => ../../../../timeout/redis

replace github.com/heartwheel-go/heartwheel/timeout/members/etcd => ../../../../timeout/members/etcd

replace github.com/heartwheel-go/heartwheel/timeout/members/zookeeper => ../../../../timeout/members/zookeeper

replace github.com/heartwheel-go/heartwheel/timeout/callback/natscall => ../../../../timeout/callback/natscall

replace github.com/heartwheel-go/heartwheel/timeout/callback/streamcall => ../../../../timeout/callback/streamcall
