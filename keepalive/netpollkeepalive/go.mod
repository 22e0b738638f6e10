module github.com/heartwheel-go/heartwheel/keepalive/netpollkeepalive

go 1.26.0

require (
	github.com/cloudwego/netpoll v0.7.2
	github.com/heartwheel-go/heartwheel v0.1.0
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
)

require (
	github.com/bytedance/gopkg v0.1.1 // indirect
	github.com/cloudwego/gopkg v0.1.4 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.50.0 // indirect
)
