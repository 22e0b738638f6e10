package natsserver

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStreamsKeepMessages(t *testing.T) {
	conn, err := nats.Connect(Start(t).ClientURL())
	require.NoError(t, err)
	defer conn.Close()
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
	require.NoError(t, err)
	ack, err := js.Publish(t.Context(), "s", nil)
	require.NoError(t, err)
	require.EqualValues(t, 1, ack.Sequence)
}
