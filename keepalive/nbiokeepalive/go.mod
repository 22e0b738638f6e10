module github.com/heartwheel-go/heartwheel/keepalive/nbiokeepalive

go 1.26.0

require (
	github.com/heartwheel-go/heartwheel v0.1.0
	github.com/lesismal/llib v1.2.2
	github.com/lesismal/nbio v1.6.8
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
)

require (
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
)
