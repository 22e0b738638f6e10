module github.com/heartwheel-go/heartwheel/examples

go 1.25.0

require (
	github.com/coder/websocket v1.8.14
	github.com/eclipse/paho.golang v0.23.0
	github.com/eclipse/paho.mqtt.golang v1.5.1
	github.com/gorilla/websocket v1.5.3
	github.com/heartwheel-go/heartwheel v0.0.0
	github.com/mochi-mqtt/server/v2 v2.7.9
	github.com/panjf2000/gnet/v2 v2.10.0
	github.com/pires/go-proxyproto v0.8.1
	github.com/redis/go-redis/v9 v9.14.1
	github.com/smallnest/goframe v1.0.0
	github.com/stretchr/testify v1.12.1
	github.com/tidwall/redcon v1.6.2
	golang.org/x/crypto v0.52.0
	google.golang.org/grpc v1.80.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/panjf2000/ants/v2 v2.12.1 // indirect
	github.com/rs/xid v1.4.0 // indirect
	github.com/tidwall/btree v1.1.0 // indirect
	github.com/tidwall/match v1.1.1 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	go.uber.org/zap v1.28.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/net v0.54.0 // indirect
	golang.org/x/sync v0.21.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.37.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260120221211-b8f7ae30c516 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
	gopkg.in/natefinch/lumberjack.v2 v2.2.1 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)

replace github.com/heartwheel-go/heartwheel => ../
