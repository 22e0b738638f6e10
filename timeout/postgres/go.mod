module github.com/heartwheel-go/heartwheel/timeout/postgres

go 1.26.0

require github.com/stretchr/testify v1.12.1

require (
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/netresearch/go-cron v0.9.1 // indirect
)

require (
	github.com/cenkalti/backoff/v5 v5.0.3
	github.com/heartwheel-go/heartwheel v0.1.0
	github.com/heartwheel-go/heartwheel/timeout v0.1.0
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/pgx/v5 v5.12.0
	go.uber.org/goleak v1.3.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sync v0.24.0
	golang.org/x/text v0.43.0 // indirect
	golang.org/x/time v0.16.0 // indirect
)
