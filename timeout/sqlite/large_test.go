package sqlite_test

import (
	"testing"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
)

func TestLargePayloadsComeAFewAtATime(t *testing.T) {
	enginetest.LargePayloads(t, newRig(t, engine.Topic{}))
}
