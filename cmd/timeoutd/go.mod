module github.com/heartwheel-go/heartwheel/cmd/timeoutd

go 1.26.0

replace (
	github.com/heartwheel-go/heartwheel => ../../
	github.com/heartwheel-go/heartwheel/timeout => ../../timeout
)
