package postgres_test

import (
	"testing"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
)

func TestLargePayloadsComeAFewAtATime(t *testing.T) {
	enginetest.LargePayloads(t, openTopic(t, timeout.Topic{Name: "t"}))
}
