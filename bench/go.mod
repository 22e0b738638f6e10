module github.com/heartwheel-go/heartwheel/bench

go 1.26.0

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0
	github.com/RussellLuo/timingwheel v0.0.0-20220218152713-54845bda3108
	github.com/antlabs/timer v0.1.4
	github.com/heartwheel-go/heartwheel v0.1.0
	github.com/hibiken/asynq v0.26.0
	github.com/jackc/pgx/v5 v5.12.0
	github.com/jackc/puddle/v2 v2.2.3
	github.com/lesismal/nbio v1.6.8
	github.com/ouqiang/timewheel v1.0.1
	github.com/panjf2000/gnet/v2 v2.10.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/rfyiamcool/go-timewheel v1.1.0
	github.com/riverqueue/river v0.51.0
	github.com/riverqueue/river/riverdriver/riverpgxv5 v0.51.0
	github.com/stretchr/testify v1.12.1
	github.com/zeromicro/go-zero v1.10.3
	go.uber.org/zap v1.28.0
	golang.org/x/perf v0.0.0-20250909190841-7e13e04d9366
)

require (
	github.com/cenkalti/backoff/v5 v5.0.3 // indirect
	github.com/dustin/go-humanize v1.1.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/ncruces/go-strftime v1.1.0 // indirect
	github.com/netresearch/go-cron v0.9.1 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	github.com/riverqueue/river/riverdriver v0.51.0 // indirect
	github.com/riverqueue/river/rivershared v0.51.0 // indirect
	github.com/riverqueue/river/rivertype v0.51.0 // indirect
	github.com/robfig/cron/v3 v3.0.1 // indirect
	github.com/spf13/cast v1.10.0 // indirect
	github.com/tidwall/gjson v1.20.0 // indirect
	github.com/tidwall/match v1.2.0 // indirect
	github.com/tidwall/pretty v1.2.1 // indirect
	github.com/tidwall/sjson v1.2.5 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	golang.org/x/time v0.16.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
	modernc.org/libc v1.80.1 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.12.1 // indirect
	modernc.org/sqlite v1.62.0 // indirect
)

require (
	github.com/aclements/go-moremath v0.0.0-20210112150236-f10218a38794 // indirect
	github.com/antlabs/stl v0.0.2 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/fatih/color v1.19.0 // indirect
	github.com/heartwheel-go/heartwheel/fleet v0.1.0
	github.com/heartwheel-go/heartwheel/internal/redisrun v0.1.0 // indirect
	github.com/heartwheel-go/heartwheel/timeout v0.1.0
	github.com/heartwheel-go/heartwheel/timeout/postgres v0.1.0
	github.com/heartwheel-go/heartwheel/timeout/redis v0.1.0
	github.com/heartwheel-go/heartwheel/timeout/sqlite v0.1.0
	github.com/mattn/go-colorable v0.1.16 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/panjf2000/ants/v2 v2.12.1 // indirect
	github.com/spaolacci/murmur3 v1.1.0 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	go.opentelemetry.io/otel v1.47.0 // indirect
	go.opentelemetry.io/otel/trace v1.47.0 // indirect
	go.uber.org/automaxprocs v1.6.0 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sync v0.24.0
	golang.org/x/sys v0.50.0 // indirect
	gopkg.in/natefinch/lumberjack.v2 v2.2.1 // indirect
)

replace github.com/heartwheel-go/heartwheel => ../

replace github.com/heartwheel-go/heartwheel/timeout => ../timeout

replace github.com/heartwheel-go/heartwheel/internal/redisrun => ../internal/redisrun

replace github.com/heartwheel-go/heartwheel/fleet => ../fleet

replace github.com/heartwheel-go/heartwheel/timeout/sqlite => ../timeout/sqlite

replace github.com/heartwheel-go/heartwheel/timeout/postgres => ../timeout/postgres

replace github.com/heartwheel-go/heartwheel/timeout/redis => ../timeout/redis
