package main

import (
	"testing"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
	"github.com/heartwheel-go/heartwheel/examples/internal/sockettest"
)

func TestMain(m *testing.M) { exampletest.Main(m) }

func TestSockets(t *testing.T) { sockettest.Run(t, serve) }
