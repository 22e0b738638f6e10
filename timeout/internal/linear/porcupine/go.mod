module github.com/heartwheel-go/heartwheel/timeout/internal/linear/porcupine

go 1.26.0

replace (
	github.com/heartwheel-go/heartwheel => ../../../../
	github.com/heartwheel-go/heartwheel/timeout => ../../../
)

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/heartwheel-go/heartwheel/timeout v0.1.0
	github.com/stretchr/testify v1.12.1
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect
