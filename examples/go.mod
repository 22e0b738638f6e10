module github.com/heartwheel-go/heartwheel/examples

go 1.25.0

require (
	github.com/coder/websocket v1.8.14
	github.com/gorilla/websocket v1.5.3
	github.com/heartwheel-go/heartwheel v0.0.0
	github.com/stretchr/testify v1.12.1
)

require (
	go.uber.org/goleak v1.3.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.47.0 // indirect
)

replace github.com/heartwheel-go/heartwheel => ../
