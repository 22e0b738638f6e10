module github.com/heartwheel-go/heartwheel/internal/browsertest

go 1.25.0

replace github.com/heartwheel-go/heartwheel => ../..

require github.com/heartwheel-go/heartwheel v0.0.0

require golang.org/x/sys v0.47.0 // indirect
