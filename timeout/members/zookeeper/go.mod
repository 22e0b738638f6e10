module github.com/heartwheel-go/heartwheel/timeout/members/zookeeper

go 1.26.0

require github.com/stretchr/testify v1.12.1

require github.com/netresearch/go-cron v0.9.1 // indirect

require (
	github.com/cenkalti/backoff/v5 v5.0.3 // indirect
	github.com/go-zookeeper/zk v1.0.4
	github.com/heartwheel-go/heartwheel v0.1.0
	github.com/heartwheel-go/heartwheel/timeout v0.1.0
	go.uber.org/goleak v1.3.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/time v0.16.0 // indirect
)
