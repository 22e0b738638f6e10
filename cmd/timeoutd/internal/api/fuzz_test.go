package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

// Any body is refused with a clear error, or is a task that an engine can keep and give back
// unchanged.
func FuzzSetting(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"after":"1h","payload":{"a":[1,2]}}`, `{"due":4000000000000,"payload_base64":"AAAA"}`, `{"due":"2026-01-02T15:04:05+01:00"}`,
		`{"callback":{"kind":"http","target":"http://a","header":{"a":"b"},"timeout":5}}`, `{"after":1e3}`, `{"due":null,"payload":null}`, `{"payload":1}{}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var setting wire.Setting
		err := unmarshal(body, &setting)
		var task timeout.Task
		if err == nil {
			task, err = setting.Task(timeout.Key{Topic: "t", ID: "a"}, false)
		}
		if err != nil {
			require.ErrorIs(t, err, timeout.ErrArgument)
			require.Less(t, problemOf(err).Status, http.StatusInternalServerError)
			require.Less(t, len(err.Error()), 2000)
			return
		}
		require.NoError(t, task.Check())
		back, err := json.Marshal(wire.TaskOf(task))
		require.NoError(t, err)
		var again wire.Task
		require.NoError(t, json.Unmarshal(back, &again))
		if again.Payload != nil {
			require.JSONEq(t, string(task.Payload), string(again.Payload))
		} else {
			require.Equal(t, string(task.Payload), string(again.PayloadBase64))
		}
	})
}

func FuzzBatch(f *testing.F) {
	for _, seed := range []string{
		`{"tasks":[{"topic":"t","id":"a","after":"1h"}]}`, `{"moves":[{"topic":"t","id":"a","due":0}]}`, `{"keys":[{"topic":"t","id":"\ud800"}]}`, `{"token":"YQ","error":"x"}`, `{"max":3,"lease":"1m","wait":1}`, `{"token":"YQ","again":"1s","returned":true}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, into := range []any{
			&settingsIn{listOf[wire.KeyedSetting]("tasks", 3)}, &movesIn{listOf[wire.KeyedMove]("moves", 3)}, &keysIn[timeout.Key]{listOf[timeout.Key]("keys", 3)},
			&keysIn[timeout.Removal]{listOf[timeout.Removal]("keys", 3)}, new(wire.Feedback), new(wire.Topic), new(wire.Pull), new(wire.Extend),
		} {
			if err := unmarshal(body, into); err != nil && !errors.Is(err, timeout.ErrArgument) {
				t.Fatalf("%T: %v", into, err)
			}
		}
	})
}

// A path is one task or none, whatever its id.
func FuzzPath(f *testing.F) {
	h := &Handler{mux: http.NewServeMux(), cfg: Config{}.withDefaults()}
	var got timeout.Key
	h.mux.HandleFunc("GET /v1/topics/{topic}/tasks/{id}", func(_ http.ResponseWriter, r *http.Request) { got, _ = keyOf(r) })
	for _, id := range []string{"a", "a/b", "..", "%2F", "ü", "a?b"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		key := timeout.Key{Topic: "t", ID: id}
		if key.Check() != nil || id == "/" {
			return
		}
		r, err := http.NewRequest(http.MethodGet, "http://h/v1/topics/t/tasks/"+escape(id), nil)
		require.NoError(t, err)
		got = timeout.Key{}
		h.mux.ServeHTTP(discard{}, r)
		require.Equal(t, key, got)
	})
}

// escape escapes all bytes but letters, as the most careful client does.
func escape(id string) string {
	var b strings.Builder
	for _, c := range []byte(id) {
		if 'a' <= c && c <= 'z' {
			b.WriteByte(c)
		} else {
			b.WriteString("%" + strings.ToUpper(string("0123456789abcdef"[c>>4])+string("0123456789abcdef"[c&15])))
		}
	}
	return b.String()
}

type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}
