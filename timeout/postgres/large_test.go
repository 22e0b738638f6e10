package postgres_test

import (
	"testing"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
)

func TestLargePayloadsComeAFewAtATime(t *testing.T) {
	enginetest.LargePayloads(t, openTopic(t, engine.Topic{Name: "t"}))
}
