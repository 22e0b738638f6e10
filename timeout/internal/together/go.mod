module github.com/heartwheel-go/heartwheel/timeout/internal/together

go 1.26.0

replace (
	github.com/heartwheel-go/heartwheel => ../../../
	github.com/heartwheel-go/heartwheel/internal/redisrun => ../../../internal/redisrun
	github.com/heartwheel-go/heartwheel/timeout => ../../
	github.com/heartwheel-go/heartwheel/timeout/callback/natscall => ../../callback/natscall
	github.com/heartwheel-go/heartwheel/timeout/callback/streamcall => ../../callback/streamcall
	github.com/heartwheel-go/heartwheel/timeout/postgres => ../../postgres
	github.com/heartwheel-go/heartwheel/timeout/redis => ../../redis
	github.com/heartwheel-go/heartwheel/timeout/sqlite => ../../sqlite
)

require github.com/stretchr/testify v1.12.1

require (
	github.com/heartwheel-go/heartwheel/internal/redisrun v0.1.0 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/netresearch/go-cron v0.9.1 // indirect
)

require (
	github.com/cenkalti/backoff/v5 v5.0.3 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dustin/go-humanize v1.1.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/heartwheel-go/heartwheel v0.1.0
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/pgx/v5 v5.12.0
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/nats-io/nats.go v1.55.0
	github.com/nats-io/nkeys v0.4.16 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	github.com/ncruces/go-strftime v1.1.0 // indirect
	github.com/redis/go-redis/v9 v9.23.0
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.uber.org/goleak v1.3.0
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	golang.org/x/time v0.16.0 // indirect
	modernc.org/libc v1.80.1 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.12.1 // indirect
	modernc.org/sqlite v1.62.0 // indirect
)

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/heartwheel-go/heartwheel/timeout v0.1.0
	github.com/heartwheel-go/heartwheel/timeout/callback/natscall v0.1.0
	github.com/heartwheel-go/heartwheel/timeout/callback/streamcall v0.1.0
	github.com/heartwheel-go/heartwheel/timeout/postgres v0.1.0
	github.com/heartwheel-go/heartwheel/timeout/redis v0.1.0
	github.com/heartwheel-go/heartwheel/timeout/sqlite v0.1.0
)
