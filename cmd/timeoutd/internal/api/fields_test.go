package api

import (
	"net/http"
	"strings"
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

// JavaScript writes an invalid date as null, and it is no wish for now. The description allows null nowhere but as a payload.
func TestNullIsNoValueOtherThanAPayload(t *testing.T) {
	s := start(t, Config{})
	const key = `"topic":"t","id":"a"`
	for _, test := range []struct{ where, body, names string }{
		{"PUT /v1/topics/t/tasks/a", `{"due":null}`, `field "due"`},
		{"PUT /v1/topics/t/tasks/a", `{"after" : null}`, `field "after"`},
		{"PUT /v1/topics/t/tasks/a", `{"After":null}`, `field "After"`},
		{"PUT /v1/topics/t/tasks/a", `{"payload":[null],"payload_base64":null}`, `field "payload_base64"`},
		{"PUT /v1/topics/t/tasks/a", `{"callback":null}`, `field "callback"`},
		{"PUT /v1/topics/t/tasks/a", `{"callback":{"kind":"http","target":"http://a","timeout":null}}`, `field "timeout"`},
		{"PUT /v1/topics/t/tasks/a", `{"callback":{"kind":"http","target":"http://a","final":[410,null]}}`, `an element of a list`},
		{"PUT /v1/topics/t/tasks/a", `{"callback":{"kind":"http","target":"http://a","header":{"payload":null}}}`, `field "payload"`},
		{"PUT /v1/topics/t/tasks/a", `{"trace":{"traceparent":null}}`, `field "traceparent"`},
		{"POST /v1/topics/t/tasks/a/move", `{"due":null}`, `field "due"`},
		{"POST /v1/topics/t/tasks/a/move", `{"after":"1h","due":null}`, `field "due"`},
		{"POST /v1/tasks/set", `{"tasks":[{` + key + `,"due":null}]}`, `field "due"`},
		{"POST /v1/tasks/set", `{"tasks":[{` + key + `},null]}`, `an element of a list`},
		{"POST /v1/tasks/set", `{"tasks":[{` + key + `,"if_absent":null}]}`, `field "if_absent"`},
		{"POST /v1/tasks/move", `{"moves":[{` + key + `,"after":null}]}`, `field "after"`},
		{"POST /v1/tasks/remove", `{"keys":[{` + key + `,"version":null}]}`, `field "version"`},
		{"POST /v1/tasks/get", `{"keys":null}`, `field "keys"`},
		{"POST /v1/topics/t/pull", `{"wait":null}`, `field "wait"`},
		{"POST /v1/extend", `{"token":"YQ","lease":null}`, `field "lease"`},
		{"POST /v1/feedback", `{"token":"YQ","error":null}`, `field "error"`},
		{"POST /v1/feedback", `{"token":"YQ","error":"x","retry_after":null}`, `field "retry_after"`},
		{"PUT /v1/topics/t", `{"retain":null}`, `field "retain"`},
		{"PUT /v1/topics/t", `{"paused":null}`, `field "paused"`},
	} {
		method, path, _ := strings.Cut(test.where, " ")
		a := s.raw(method, path, test.body)
		require.Equal(t, http.StatusBadRequest, a.status, "%s %s", test.where, test.body)
		require.Contains(t, a.problem(t).Detail, test.names+" is null, must have a value")
	}
	s.ask(http.StatusCreated, http.MethodPut, "/v1/topics/t/tasks/a", `{"after":"1h","payload":null}`)
	s.ask(http.StatusOK, http.MethodPut, "/v1/topics/t/tasks/a", `{"after":"1h","payload":{"at":null,"list":[null]}}`)
	s.ask(http.StatusOK, http.MethodPut, "/v1/topics/t/tasks/a", `{"due":0}`)
	s.ask(http.StatusOK, http.MethodPut, "/v1/topics/t/tasks/a", `{"due":253402300800}`)
	s.ask(http.StatusOK, http.MethodPut, "/v1/topics/t/tasks/a", `{"due":"1970-01-21T18:53:20Z"}`)
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
	b.Run("fields", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			require.NoError(b, checkFields(body, false))
		}
	})
}
