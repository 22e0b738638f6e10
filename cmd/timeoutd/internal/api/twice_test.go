package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

// A payload is the program's own. In the headers of NATS, the case of a name counts.
func TestWhatMayBeThereTwice(t *testing.T) {
	for _, text := range []string{
		`{"payload":{"a":1,"a":{"a":[{"b":2,"b":3}],"a":1}}}`, `{"Payload" : [{"a":1,"a":2}], "after":"1h"}`, `{"payload":"after","after":"1h"}`,
		`{"callback":{"kind":"nats","target":"t","header":{"a":"1","A":"a"}},"payload":{}}`,
	} {
		require.NoError(t, unmarshal([]byte(text), new(wire.Setting)), text)
	}
	batch := settingsIn{listOf[wire.KeyedSetting]("tasks", 3)}
	require.NoError(t, unmarshal([]byte(`{"tasks":[{"id":"id","payload":{"id":1}},{"id":"id","payload":[]},{"id":"topic"}]}`), &batch))
	require.ErrorIs(t, unmarshal([]byte(`{"tasks":[{"id":"a","payload":{"id":1},"payload":2}]}`), &settingsIn{listOf[wire.KeyedSetting]("tasks", 3)}), timeout.ErrArgument)
}

func BenchmarkUnmarshal(b *testing.B) {
	body := []byte(`{"tasks":[`)
	for range 500 {
		body = append(body, `{"topic":"t","id":"4711-4711","after":"1h","payload":{"order":4711}},`...)
	}
	body = append(body[:len(body)-1], "]}"...)
	b.Run("all", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			require.NoError(b, unmarshal(body, &settingsIn{listOf[wire.KeyedSetting]("tasks", 1000)}))
		}
	})
	b.Run("twice", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			require.NoError(b, checkTwice(body))
		}
	})
}
