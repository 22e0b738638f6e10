package api

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

func TestOneTaskOnItsWay(t *testing.T) {
	s := start(t, Config{})
	const path = "/v1/topics/orders/tasks/4711"
	var first wire.Answer
	read(t, s.ask(http.StatusCreated, http.MethodPut, path, `{"after":"15m","payload":{"n":12345678901234567890}}`), &first)
	require.Equal(t, timeout.None, first.Was)
	require.True(t, first.Changed)
	require.InDelta(t, time.Now().Add(15*time.Minute).Unix(), first.Due.Unix(), 60)

	second := do[wire.Answer](s, http.MethodPut, path, `{"due":"2099-01-02T03:04:05.6781Z","payload":{"n":12345678901234567890}}`)
	require.Equal(t, timeout.Pending, second.Was)
	require.Greater(t, second.Version, first.Version)
	require.Equal(t, "2099-01-02T03:04:05.679Z", second.Due.UTC().Format(time.RFC3339Nano), "rounded up to milliseconds")

	task := get[wire.Task](s, path)
	require.Equal(t, timeout.Pending, task.State)
	require.Equal(t, second.Version, task.Version)
	require.JSONEq(t, `{"n":12345678901234567890}`, string(task.Payload))
	require.Contains(t, string(task.Payload), "12345678901234567890", "no digit is lost")

	moved := do[wire.Answer](s, http.MethodPost, path+"/move", `{"due":4000000000000}`)
	require.True(t, moved.Changed)
	require.Equal(t, int64(4000000000000), moved.Due.UnixMilli())

	removed := do[wire.Answer](s, http.MethodDelete, path, "")
	require.Equal(t, wire.Answer{Was: timeout.Pending, Changed: true}, removed)
	repeated := do[wire.Answer](s, http.MethodDelete, path, "")
	require.Equal(t, timeout.Removed, repeated.Was, "it is kept for a while")
	require.False(t, repeated.Changed)
	require.False(t, do[wire.Answer](s, http.MethodPost, path+"/move", `{"after":0}`).Changed)
	require.Contains(t, s.ask(http.StatusNotFound, http.MethodGet, "/v1/topics/orders/tasks/nobody", ""), "the topic's retain")
	require.Equal(t, wire.Answer{Was: timeout.None}, do[wire.Answer](s, http.MethodDelete, "/v1/topics/orders/tasks/nobody", ""))
}

// A task has the trace of its setting, or else of the request. A wrong header is nobody's fault here,
// and baggage is not for every target.
func TestATaskHasTheTraceOfTheRequest(t *testing.T) {
	s := start(t, Config{})
	const path = "/v1/topics/orders/tasks/1"
	const parent, other = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-11111111111111111111111111111111-2222222222222222-00"
	set := func(body string, header ...string) map[string]string {
		t.Helper()
		require.Less(t, s.raw(http.MethodPut, path, body, header...).status, 300)
		return get[wire.Task](s, path).Trace
	}
	require.Equal(t, map[string]string{"traceparent": parent, "tracestate": "a=1"},
		set(`{"after":"1h"}`, "Traceparent", parent, "Tracestate", "a=1", "Baggage", "secret=1"))
	require.Equal(t, map[string]string{"traceparent": other, "baggage": "user=7"},
		set(`{"after":"1h","trace":{"traceparent":"`+other+`","baggage":"user=7"}}`, "Traceparent", parent, "Tracestate", "a=1"))
	require.Equal(t, map[string]string{"traceparent": parent}, set(`{"after":"1h"}`, "Traceparent", parent, "Tracestate", strings.Repeat("a", 3000)))
	require.Nil(t, set(`{"after":"1h"}`, "Traceparent", "00-wrong", "Tracestate", "a=1"))
	require.Nil(t, set(`{"after":"1h"}`, "Tracestate", "a=1"))

	refused := s.raw(http.MethodPut, path, `{"after":"1h","trace":{"traceparent":"00-wrong"}}`)
	require.Equal(t, http.StatusBadRequest, refused.status)
	require.Contains(t, refused.body, "must be as in W3C Trace Context")

	do := s.raw(http.MethodPost, "/v1/tasks/set", `{"tasks":[{"topic":"orders","id":"2"},{"topic":"orders","id":"3","trace":{"traceparent":"`+other+`"}}]}`, "Traceparent", parent)
	require.Equal(t, http.StatusOK, do.status)
	require.Equal(t, parent, get[wire.Task](s, "/v1/topics/orders/tasks/2").Trace["traceparent"])
	require.Equal(t, other, get[wire.Task](s, "/v1/topics/orders/tasks/3").Trace["traceparent"])
	require.WithinDuration(t, time.Now(), get[wire.Task](s, "/v1/topics/orders/tasks/3").Created.Time, time.Minute)
}

func TestATaskHasSettingsOfItsOwn(t *testing.T) {
	s := start(t, Config{})
	const path = "/v1/topics/orders/tasks/1"
	const own = `"retries":3,"backoff":"1d","backoff_max":172800000,"timeout":"-1s","not_after":"2999-01-01T00:00:00Z","metadata":{"customer":"7"}`
	require.Equal(t, http.StatusCreated, s.raw(http.MethodPut, path, `{"due":"2099-01-01T00:00:00Z",`+own+`}`).status)
	want := wire.Options{
		Retries: 3, Backoff: wire.Duration(24 * time.Hour), BackoffMax: wire.Duration(48 * time.Hour), Timeout: wire.Duration(-time.Second),
		NotAfter: wire.Instant{Time: time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC)}, Metadata: map[string]string{"customer": "7"},
	}
	require.Equal(t, want, get[wire.Task](s, path).Options)
	do[wire.Answers](s, http.MethodPost, "/v1/tasks/set", `{"tasks":[{"topic":"orders","id":"2",`+own+`,"due":"2099-01-01T00:00:00Z"},{"topic":"orders","id":"3","due":"2099-01-01T00:00:00Z"}]}`)
	require.Len(t, get[wire.Tasks](s, "/v1/topics/orders/tasks").Tasks, 3)
	listed := get[wire.Tasks](s, "/v1/topics/orders/tasks?metadata[]=customer%3D7").Tasks
	require.Len(t, listed, 2)
	require.Equal(t, want, listed[0].Options)
	require.Empty(t, get[wire.Tasks](s, "/v1/topics/orders/tasks?metadata[]=customer=7&metadata[]=region=eu").Tasks)

	do[wire.Topic](s, http.MethodPut, "/v1/topics/yearly", `{"every":"0 0 1 1 *"}`)
	require.Equal(t, http.StatusCreated, s.raw(http.MethodPut, "/v1/topics/yearly/tasks/1", `{"on_schedule":true}`).status)
	require.Equal(t, time.January, get[wire.Task](s, "/v1/topics/yearly/tasks/1").Due.UTC().Month())
	require.Equal(t, http.StatusConflict, s.raw(http.MethodPut, path, `{"on_schedule":true}`).status)

	for body, says := range map[string]string{
		`{"retries":1000001}`:           "retries 1000001 of a task, must be at most 1000000",
		`{"backoff":"-1s"}`:             "backoff -1s of a task, must not be negative",
		`{"backoff_max":1,"backoff":2}`: "backoff 2ms of a task, must be at most its BackoffMax 1ms",
		`{"not_after":"2020-01-01T00:00:00Z","due":"2021-01-01T00:00:00Z"}`: "must not be after NotAfter",
		`{"metadata":{"":"x"}}`:   "must have 1 to 64",
		`{"metadata":7}`:          `is a JSON number, must be an object`,
		`{"metadata":{"a":null}}`: `is null, must have a value`,
	} {
		require.Contains(t, s.ask(http.StatusBadRequest, http.MethodPut, path, body), says, body)
	}
	for query, says := range map[string]string{
		"metadata[]=customer":           `must be name=value, each name once`,
		"metadata[]=a=1&metadata[]=a=2": "each name once",
		"metadata[]=%3D1":               "must have 1 to 64",
		"metadata=a":                    "metadata",
	} {
		require.Contains(t, s.ask(http.StatusBadRequest, http.MethodGet, "/v1/topics/orders/tasks?"+query, ""), says, query)
	}
}

// A repeated call has one effect. With If-None-Match only the first one counts.
func TestCallsCanBeRepeated(t *testing.T) {
	s := start(t, Config{})
	const path = "/v1/topics/orders/tasks/1"
	const body = `{"due":"2099-01-01T00:00:00Z","payload":"x"}`
	s.ask(http.StatusCreated, http.MethodPut, path, body)
	again := do[wire.Answer](s, http.MethodPut, path, body)
	require.Equal(t, timeout.Pending, again.Was)
	require.Equal(t, int64(1), get[wire.TopicCounts](s, "/v1/topics/orders").Counts.Pending)

	var refused wire.Answer
	read(t, s.ask(http.StatusPreconditionFailed, http.MethodPut, path, `{"after":0}`, "If-None-Match", "*"), &refused)
	require.Equal(t, wire.Answer{Was: timeout.Pending, Version: again.Version, Due: again.Due}, refused)
	s.ask(http.StatusCreated, http.MethodPut, path+"2", `{"after":"1h"}`, "If-None-Match", "*")
	require.Equal(t, http.StatusBadRequest, s.raw(http.MethodPut, path, body, "If-None-Match", `"v1"`).status)
}

func TestBatches(t *testing.T) {
	s := start(t, Config{})
	set := do[wire.Answers](s, http.MethodPost, "/v1/tasks/set", `{"tasks":[
		{"topic":"a","id":"1","after":"1h","payload":[1]},
		{"topic":"b","id":"x/y","due":4000000000000,"payload_base64":"/wA="},
		{"topic":"a","id":"1","after":3600000,"if_absent":true},
		{"topic":"a","id":"/","after":"2h"},
		{"topic":"b","id":"x/y","after":"1s","keep_due":true,"payload_base64":"/wA="}]}`)
	require.Len(t, set.Answers, 5)
	require.True(t, set.Answers[4].Changed)
	require.Equal(t, set.Answers[1].Due, set.Answers[4].Due)
	require.Greater(t, set.Answers[4].Version, set.Answers[1].Version)
	require.Contains(t, s.raw(http.MethodPut, "/v1/topics/b/tasks/1", `{"after":"1s","keep_due":true}`, "If-None-Match", "*").body, "KeepDue and IfAbsent of b/1, must be one of them")
	require.True(t, set.Answers[0].Changed)
	require.True(t, set.Answers[3].Changed)
	require.False(t, set.Answers[2].Changed)
	require.Equal(t, timeout.Pending, set.Answers[2].Was)

	moved := do[wire.Answers](s, http.MethodPost, "/v1/tasks/move", `{"moves":[{"topic":"a","id":"1","after":"5h"},{"topic":"a","id":"no","after":"5h"}]}`)
	require.True(t, moved.Answers[0].Changed)
	require.Equal(t, wire.Answer{Was: timeout.None}, moved.Answers[1])

	found := do[wire.Tasks](s, http.MethodPost, "/v1/tasks/get", `{"keys":[{"topic":"b","id":"x/y"},{"topic":"b","id":"no"},{"topic":"a","id":"/"}]}`)
	require.Equal(t, []byte{0xff, 0}, found.Tasks[0].PayloadBase64)
	require.Equal(t, timeout.None, found.Tasks[1].State)
	require.Equal(t, timeout.Pending, found.Tasks[2].State, "an id that fits into no path")
	require.NotNil(t, do[wire.Tasks](s, http.MethodPost, "/v1/tasks/get", `{"keys":[]}`).Tasks, "a list, and not null")

	gone := do[wire.Answers](s, http.MethodPost, "/v1/tasks/remove", `{"keys":[{"topic":"a","id":"/"},{"topic":"a","id":"no"}]}`)
	require.Equal(t, []wire.Answer{{Was: timeout.Pending, Changed: true}, {Was: timeout.None}}, gone.Answers)
	require.Equal(t, wire.Answers{Answers: []wire.Answer{}}, do[wire.Answers](s, http.MethodPost, "/v1/tasks/set", `{"tasks":[]}`))
}

func TestPages(t *testing.T) {
	s := start(t, Config{})
	want := make(map[string]bool)
	var tasks []string
	for i := range 250 {
		id := fmt.Sprintf("task %d", i)
		want[id] = true
		tasks = append(tasks, fmt.Sprintf(`{"topic":"t","id":%q,"after":"%dm","payload":"12345"}`, id, 100+i))
	}
	do[wire.Answers](s, http.MethodPost, "/v1/tasks/set", `{"tasks":[`+strings.Join(tasks, ",")+`]}`)
	path, pages := "/v1/topics/t/tasks?limit=60", 0
	for cursor := ""; ; pages++ {
		page := get[wire.Tasks](s, path+"&cursor="+url.QueryEscape(cursor))
		require.LessOrEqual(t, len(page.Tasks), 60)
		for _, task := range page.Tasks {
			require.True(t, want[task.ID], "%s is there once", task.ID)
			require.Equal(t, 7, task.PayloadBytes)
			require.Nil(t, task.Payload)
			delete(want, task.ID)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	require.Empty(t, want)
	require.GreaterOrEqual(t, pages, 4)
}

func TestPayloadsComeBackAsTheyWere(t *testing.T) {
	s := start(t, Config{})
	for i, payload := range []string{`null`, `0`, `""`, `"ü\u0000\ud83d\ude00"`, `[1.10,1e400]`, `{"a":{"a":1},"b":false}`} {
		path := fmt.Sprintf("/v1/topics/t/tasks/%d", i)
		s.ask(http.StatusCreated, http.MethodPut, path, `{"after":"1h","payload":`+payload+`}`)
		body := s.ask(http.StatusOK, http.MethodGet, path, "")
		require.Contains(t, body, `"payload":`+payload, body)
	}
	for i, payload := range []string{"", "\xff\x00", "no json", `{"a":`} {
		path := fmt.Sprintf("/v1/topics/t/tasks/b%d", i)
		encoded := base64.StdEncoding.EncodeToString([]byte(payload))
		s.ask(http.StatusCreated, http.MethodPut, path, `{"after":"1h","payload_base64":"`+encoded+`"}`)
		task := get[wire.Task](s, path)
		require.Equal(t, payload, string(task.PayloadBase64))
		require.Nil(t, task.Payload)
	}
}

// An id in a path reaches the engine unchanged, and does not leave its segment.
func TestIDsInPaths(t *testing.T) {
	s := start(t, Config{})
	for _, id := range []string{"a/b", "//", "a b", "ü😀", "%2F", "a?b#c", "{user-7}/reminder", "..a", "a+b", "~", "a;b=c", `"'<>&`, "move", strings.Repeat("ü", 127)} {
		path := "/v1/topics/t/tasks/" + url.PathEscape(id)
		s.ask(http.StatusCreated, http.MethodPut, path, `{"after":"1h"}`)
		require.Equal(t, id, get[wire.Task](s, path).ID)
		require.Equal(t, id, do[wire.Tasks](s, http.MethodPost, "/v1/tasks/get", fmt.Sprintf(`{"keys":[{"topic":"t","id":%s}]}`, quote(id))).Tasks[0].ID)
		require.True(t, do[wire.Answer](s, http.MethodPost, path+"/move", `{"after":"2h"}`).Changed)
		require.True(t, do[wire.Answer](s, http.MethodDelete, path, "").Changed)
	}
	for path, status := range map[string]int{
		"/v1/topics/t/tasks/":                                  http.StatusNotFound,
		"/v1/topics/t/tasks/%00":                               http.StatusBadRequest,
		"/v1/topics/t/tasks/a%0Ab":                             http.StatusBadRequest,
		"/v1/topics/t/tasks/%ff":                               http.StatusBadRequest,
		"/v1/topics/t/tasks/" + strings.Repeat("a", 256):       http.StatusBadRequest,
		"/v1/topics/-t/tasks/a":                                http.StatusBadRequest,
		"/v1/topics/a%2Fb/tasks/a":                             http.StatusBadRequest,
		"/v1/topics/" + strings.Repeat("t", 101) + "/tasks/a":  http.StatusBadRequest,
		"/v1/topics/t/tasks/a/b":                               http.StatusNotFound,
		"/v2/topics":                                           http.StatusNotFound,
		"/etc/passwd":                                          http.StatusNotFound,
		"/v1/topics/%2e%2e%2f%2e%2e%2fetc%2fpasswd/tasks/a":    http.StatusBadRequest,
		"/v1/topics/t/tasks/%2e%2e%2f%2e%2e%2fetc%2fpasswd":    http.StatusNotFound,
		"/v1/topics/t/tasks/%2e%2e%2f%2e%2e%2fetc%2fpasswd/no": http.StatusNotFound,
	} {
		require.Equal(t, status, s.raw(http.MethodGet, path, "").status, path)
	}
}

// A path not in its shortest form is refused. After a redirect the method would do something
// else.
func TestCrookedPathsAreRefused(t *testing.T) {
	s := start(t, Config{})
	s.http.CheckRedirect = nil // it follows a redirect, with the method
	s.ask(http.StatusCreated, http.MethodPut, "/v1/topics/mix/tasks/a", `{"after":"1h"}`)
	s.ask(http.StatusCreated, http.MethodPut, "/v1/topics/mix/tasks/"+url.PathEscape("a//../b/."), `{"after":"1h"}`)
	for _, path := range []string{
		"/v1/topics/mix/tasks/..", "/v1/topics/mix/tasks/.", "/v1/topics/mix/tasks/../", "/v1/topics/mix/./", "/v1/topics//mix", "//v1/topics/mix",
		"/v1/topics/mix//", "//", "/v1/topics/mix/tasks/a/../..", "/v1/topics/x/../mix", "/v1/../v1/topics/mix",
	} {
		for _, method := range []string{http.MethodDelete, http.MethodPut, http.MethodGet, http.MethodPost} {
			a := s.raw(method, path, "{}")
			require.Equal(t, http.StatusBadRequest, a.status, "%s %s", method, path)
			require.Contains(t, a.problem(t).Detail, path)
			require.Empty(t, a.header.Get("Location"))
		}
	}
	for path, status := range map[string]int{ // as some clients make it, without such segments
		"/v1/topics/mix/": http.StatusNotFound, "/v1/topics/mix/tasks/": http.StatusNotFound,
		"/v1/topics/mix/tasks/%2e%2e": http.StatusBadRequest, "/v1/topics/mix/tasks/%2E": http.StatusBadRequest,
		"/v1/topics/%2e%2e": http.StatusBadRequest, "/v1/topics/mix/tasks/%2e%2e/move": http.StatusBadRequest,
	} {
		require.Equal(t, status, s.raw(http.MethodDelete, strings.TrimSuffix(path, "/move"), "").status, path)
		require.GreaterOrEqual(t, s.raw(http.MethodPost, path, "{}").status, http.StatusBadRequest, path)
	}
	require.EqualValues(t, 2, get[wire.TopicCounts](s, "/v1/topics/mix").Counts.Pending)
}

func quote(s string) string { return strings.ReplaceAll(fmt.Sprintf("%q", s), `\x`, `\u00`) }

func TestMethods(t *testing.T) {
	s := start(t, Config{})
	a := s.raw(http.MethodPatch, "/v1/topics/t/tasks/a", `{}`)
	require.Equal(t, http.StatusMethodNotAllowed, a.status)
	require.Equal(t, "GET, PUT, DELETE, HEAD", a.header.Get("Allow"))
	require.Equal(t, http.StatusMethodNotAllowed, s.raw(http.MethodDelete, "/v1/stats", "").status)
	require.Equal(t, http.StatusOK, s.raw(http.MethodHead, "/v1/stats", "").status)
	a = s.raw(http.MethodGet, "/v1/tasks/set", "")
	require.Equal(t, "POST", a.header.Get("Allow"))
}

// Each error names the value and the limit.
func TestBadRequests(t *testing.T) {
	s := start(t, Config{MaxBody: 4 << 10, MaxBatch: 2})
	const one, set = "PUT /v1/topics/t/tasks/a", "POST /v1/tasks/set"
	for _, c := range []struct {
		where, body string
		status      int
		want        string
	}{
		{one, ``, 415, `must be application/json`},
		{one, ` `, 400, `the body is empty, must be a JSON object`},
		{one, `[]`, 400, `the body begins with "[", must be a JSON object`},
		{one, `null`, 400, `the body begins with "n", must be a JSON object`},
		{one, `7`, 400, `the body begins with "7", must be a JSON object`},
		{set, `{}`, 400, `field "tasks" is not there, must be a list`},
		{set, `{"tasks":null}`, 400, `field "tasks" is null, must have a value or not be there`},
		{"POST /v1/tasks/remove", `{}`, 400, `field "keys" is not there, must be a list`},
		{"POST /v1/tasks/move", `{}`, 400, `field "moves" is not there, must be a list`},
		{one, `{"after":"1h"`, 400, `the JSON ends before it is complete`},
		{one, `{"after":"1h"}}`, 400, `there is something after the JSON value`},
		{one, `{"after":1h}`, 400, `no JSON at byte 11`},
		{one, "{\"payload\":\"\xff\"}", 400, `not UTF-8`},
		{one, `{"afer":"1h"}`, 400, `unknown field "afer"`},
		{one, `{"after":"1 parsec"}`, 400, `duration "1 parsec", must be as 1m30s or 2d, or a number of milliseconds`},
		{one, `{"after":"-1s"}`, 400, `invalid argument: after -1s of t/a, must not be negative`},
		{one, `{"after":1.5}`, 400, `duration 1.5, must be a string or a whole number of milliseconds`},
		{one, `{"after":9223372036854775807}`, 400, `duration of 9223372036854775807 ms, must be at most 9223372036854 ms`},
		{one, `{"after":9223372036854775808}`, 400, `must be a number of milliseconds up to 9223372036854775807`},
		{one, `{"after":9223372036854}`, 400, `invalid argument: after 2562047h47m16.854s of t/a, must be at most 876000h0m0s`},
		{one, `{"after":"876000h1ns"}`, 400, `of t/a, must be at most 876000h0m0s`},
		{"POST /v1/topics/t/tasks/a/move", `{"after":"876001h"}`, 400, `invalid argument: after 876001h0m0s of t/a, must be at most 876000h0m0s`},
		{set, `{"tasks":[{"topic":"t","id":"a","after":"876001h"}]}`, 400, `tasks[0]: timeout: invalid argument: after 876001h0m0s of t/a, must be at most`},
		{"POST /v1/tasks/move", `{"moves":[{"topic":"t","id":"a","after":"876001h"}]}`, 400, `moves[0]: timeout: invalid argument: after 876001h0m0s of t/a, must be at most`},
		{one, `{"after":true}`, 400, `duration true, must be a string or a whole number`},
		{one, `{"due":"tomorrow"}`, 400, `action time "tomorrow", must be as 2026-01-02T15:04:05Z`},
		{one, `{"due":"1969-12-31T23:59:59Z"}`, 400, `must be in the years 1970 to 9999`},
		{one, `{"due":"0001-01-01T00:00:00Z"}`, 400, `must be in the years 1970 to 9999`},
		{one, `{"due":253402300800000}`, 400, `must be in the years 1970 to 9999`},
		{one, `{"due":-1}`, 400, `must be in the years 1970 to 9999`},
		{one, `{"due":1796000000}`, 400, `action time 1796000000 is 2026-11-30T00:53:20Z as seconds since 1970 and 1970-01-21T18:53:20Z as milliseconds: milliseconds?`},
		{one, `{"due":1}`, 400, `milliseconds? It must be a number of them from 253402300800`},
		{one, `{"due":253402300799}`, 400, `is 9999-12-31T23:59:59Z as seconds since 1970 and 1978-01-11T21:31:40Z as milliseconds`},
		{"POST /v1/topics/t/tasks/a/move", `{"due":1796000000}`, 400, `milliseconds?`},
		{set, `{"tasks":[{"topic":"t","id":"a","due":1796000000}]}`, 400, `tasks[0]: timeout: invalid argument: action time 1796000000 is`},
		{"POST /v1/tasks/move", `{"moves":[{"topic":"t","id":"a","due":1796000000}]}`, 400, `moves[0]: timeout: invalid argument: action time 1796000000 is`},
		{one, `{"due":9e99}`, 400, `action time 9e99, must be a string or a whole number`},
		{one, `{"due":99999999999999999999}`, 400, `action time 99999999999999999999, must be a number of milliseconds up to 9223372036854775807`},
		{one, `{"due":0,"after":0}`, 400, `must be one of them`},
		{one, `{"payload":1,"payload_base64":"AA=="}`, 400, `payload and payload_base64, must be one of them`},
		{one, `{"payload_base64":"*"}`, 400, `base64`},
		{one, `{"payload_base64":1}`, 400, `field "payload_base64" is a JSON number, must be a string`},
		{one, `{"callback":{"kind":"http"}}`, 400, `callback with kind "http" and target "", must have both`},
		{one, `{"callback":{"kind":"http","target":"http://x","final":[422,200]}}`, 400, `invalid argument: final 200 of a callback, must be 400 to 599`},
		{one, `{"callback":{"kind":"http","target":"http://x","timeout":"-1s"}}`, 400, `invalid argument: timeout -1s of a callback`},
		{one, `{"payload":"` + strings.Repeat("x", 5000) + `"}`, 413, `the body has more than 4096 bytes`},
		{"POST /v1/topics/t/tasks/a/move", `{}`, 400, `a move of t/a with neither due nor after`},
		{"POST /v1/topics/t/tasks/a/move", `{"after":-1}`, 400, `after -1ms of t/a, must not be negative`},
		{set, `{"tasks":{}}`, 400, `field "tasks" is a JSON object, must be a list`},
		{set, `{"tasks":[{"topic":1}]}`, 400, `tasks[0]: timeout: invalid argument: field "topic" is a JSON number, must be a string`},
		{"PUT /v1/topics/t", `{"paused":1}`, 400, `field "paused" is a JSON number, must be true or false`},
		{"PUT /v1/topics/t", `{"callback":[]}`, 400, `field "callback" is a JSON array, must be an object`},
		{set, `{"tasks":[{"topic":"t","id":"a"},{"topic":"t","id":""}]}`, 400, `tasks[1]: timeout: invalid argument: id has 0 bytes`},
		{set, `{"tasks":[{"topic":"!","id":"a"}]}`, 400, `tasks[0]: timeout: invalid argument: topic "!"`},
		{set, `{"tasks":[{"topic":"t","id":"a"}],"tasks":[]}`, 400, `field "tasks" is there twice, must be there once`},
		{"POST /v1/tasks/remove", `{"keys":null,"keys":[]}`, 400, `field "keys" is there twice`},
		{set, `{"tasks":[{"topic":"t","id":"a"},{"payload":[{}],"id":"b", "\u0049d" :"c","topic":"t"}]}`, 400, `field "Id" is there twice`},
		{one, `{"payload":{"a":"\\","a":"\""},"after":"1h","after":"2h"}`, 400, `field "after" is there twice`},
		{one, `{"callback":{"kind":"http","target":"http://x","header":{"A":"1","A":"2"}}}`, 400, `field "A" is there twice`},
		{one, `{"callback":{"\u212aind":"http","kind":"http","target":"http://x"}}`, 400, `field "kind" is there twice`},
		{set, `{"tasks":[{},{},{}]}`, 400, `3 tasks in a request, must be at most 2`},
		{"POST /v1/tasks/move", `{"moves":[{"topic":"t","id":"a"}]}`, 400, `moves[0]`},
		{"POST /v1/tasks/remove", `{"keys":[{"topic":"t","id":"a\u0000"}]}`, 400, `keys[0]`},
		{"POST /v1/tasks/remove", `{"keys":[{"topic":"t","id":"a","state":"done"}]}`, 400, `keys[0]: timeout: invalid argument: state done of a removal of t/a, must be none, pending, running or dead`},
		{"POST /v1/tasks/remove", `{"keys":[{"topic":"t","id":"a","version":-1}]}`, 400, `version -1 of a removal of t/a, must not be negative`},
		{"POST /v1/tasks/drop", `{"keys":[{"topic":"t","id":"a","state":"pending"}]}`, 400, `keys[0]: timeout: invalid argument: state pending of what is dropped, must be dead`},
		{"POST /v1/tasks/get", `{"keys":[{"topic":"t","id":"a","version":1}]}`, 400, `unknown field "version"`},
		{"POST /v1/tasks/get", `{"keys":[{},{},{}]}`, 400, `3 tasks in a request`},
		{"POST /v1/feedback", `{"token":"!"}`, 400, `token "!"`},
		{"POST /v1/feedback", `{"token":"","permanent":true}`, 400, `token ""`},
		{"GET /v1/topics/t/tasks?limit=0", ``, 400, `limit "0", must be a number from 1 to 1000`},
		{"GET /v1/topics/t/tasks?limit=1001", ``, 400, `limit "1001", must be a number from 1 to 1000`},
		{"GET /v1/topics/t/tasks?limit=x", ``, 400, `limit "x", must be a number from 1 to 1000`},
		{"GET /v1/topics/t/tasks?limit=1&limit=2", ``, 400, `parameter "limit" is there 2 times`},
		{"GET /v1/topics/t/tasks?page=2", ``, 400, `parameter "page", must be one of ["state" "limit" "cursor" "metadata[]"]`},
		{"GET /v1/topics/t/tasks?state=lost", ``, 400, `state "lost"`},
		{"GET /v1/topics/t/tasks?state=none", ``, 400, `state none of a list`},
		{"GET /v1/topics/t/tasks?a;b", ``, 400, `semicolon`},
		{"PUT /v1/topics/t", `{"retain_dead":"-1s"}`, 400, `invalid argument: retain_dead -1s of topic t, must not be negative`},
		{"PUT /v1/topics/t", `{"retain_dead":"876001h"}`, 400, `invalid argument: retain_dead 876001h0m0s of topic t, must be at most 876000h0m0s`},
		{"PUT /v1/topics/t", `{"max_dead":1.5}`, 400, `field "max_dead" is a JSON number 1.5, must be a whole number`},
		{"PUT /v1/topics/t", `{"backoff":"2h","backoff_max":"1h"}`, 400, `invalid argument: backoff 2h0m0s of topic t, must be at most backoff_max 1h0m0s`},
		{"PUT /v1/topics/t", `{"slots":3}`, 400, `invalid argument: slots 3 of topic t, must be a power of two`},
		{"PUT /v1/topics/t", `{"retries":1000001}`, 400, `invalid argument: retries 1000001 of topic t, must be at most 1000000`},
		{"PUT /v1/topics/t", `{"slots":8,"global_concurrency":7}`, 400, `invalid argument: global_concurrency 7 of topic t, must be 0 or at least the number of its slots, 8`},
		{"PUT /v1/topics/t", `{"every":"1ms"}`, 400, `invalid argument: every "1ms", must be from 1s to 876000h0m0s (topic t)`},
		{"PUT /v1/topics/t", `{"concurrency":65537}`, 400, `invalid argument: concurrency 65537 of topic t, must be 0 to 65536`},
		{"PUT /v1/topics/t", `{"rate":1e7}`, 400, `invalid argument: rate 1e+07 of topic t, must be 0, or from 1e-06 to 1e+06`},
		{"PUT /v1/topics/t", `{"retain":3153600000001}`, 400, `invalid argument: retain 876000h0m0.001s of topic t, must be at most 876000h0m0s`},
		{one, `{"callback":{"kind":"http","target":"http://x","timeout":"876001h"}}`, 400, `invalid argument: timeout 876001h0m0s of a callback, must be at most 876000h0m0s`},
		{set, `{"tasks":[{"topic":"t","id":".."}]}`, 400, `id "..", must be neither . nor .. but another one`},
		{"PUT /v1/topics/t", `{"name":"u"}`, 400, `name "u" in the body, must be that of the path, "t"`},
		{set, `{"tasks":[{"topic":"t","id":"Lease Slots","after":"-1s"}]}`, 400, `tasks[0]: timeout: invalid argument: after -1s of t/Lease Slots, must not`},
		{"PUT /v1/topics/t", `{"lease":"1ms"}`, 400, `invalid argument: lease 1ms of topic t, must be at least 100ms`},
		{"GET /v1/topics/nobody", ``, 404, `topic "nobody"`},
		{"DELETE /v1/topics/nobody", ``, 404, ``},
		{"POST /v1/topics/nobody/pause", ``, 404, `topic "nobody"`},
		{"POST /v1/topics/nobody/dead/replay", ``, 404, `topic "nobody"`},
	} {
		method, path, _ := strings.Cut(c.where, " ")
		a := s.raw(method, path, c.body)
		require.Equal(t, c.status, a.status, "%s %s: %s", c.where, c.body, a.body)
		require.Contains(t, a.problem(t).Detail, c.want, c.where)
	}
	for _, header := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/json;;"} {
		require.Equal(t, http.StatusUnsupportedMediaType, s.raw(http.MethodPut, "/v1/topics/t/tasks/a", `{}`, "Content-Type", header).status)
	}
	require.Empty(t, get[wire.Topics](s, "/v1/topics").Topics, "nothing of that has made a topic")
}

func TestGarbageCursors(t *testing.T) {
	s := start(t, Config{})
	s.ask(http.StatusCreated, http.MethodPut, "/v1/topics/t/tasks/a", `{"after":"1h"}`)
	for _, cursor := range []string{"x", "-1", "9999999999999999999999", "0:0:0:0", "\x00", "AAAA", strings.Repeat("9", 5000), `{"slot":99999}`, "1:" + strings.Repeat("a", 300)} {
		a := s.raw(http.MethodGet, "/v1/topics/t/tasks?cursor="+url.QueryEscape(cursor), "")
		require.Contains(t, []int{http.StatusOK, http.StatusBadRequest}, a.status, "%q: %s", cursor, a.body)
	}
}

func TestTopics(t *testing.T) {
	s := start(t, Config{})
	require.Equal(t, wire.Topics{Topics: []wire.Topic{}}, get[wire.Topics](s, "/v1/topics"))
	kept := do[wire.TopicChange](s, http.MethodPut, "/v1/topics/mail", `{"slots":4,"lease":"1m","retries":-1,"callback":{"kind":"http","target":"http://example.com/","timeout":2500,"final":[422]}}`)
	require.Equal(t, "mail", kept.Name)
	require.Equal(t, 4, kept.Slots)
	require.Equal(t, wire.Duration(time.Minute), kept.Lease)
	require.Equal(t, wire.Duration(time.Second), kept.Backoff, "the default")
	require.Equal(t, wire.Duration(2500*time.Millisecond), kept.Callback.Timeout)
	require.Equal(t, []int{422}, kept.Callback.Final)
	require.Equal(t, 8, do[wire.TopicChange](s, http.MethodPut, "/v1/topics/mail", `{"slots":8}`).Slots)
	require.Equal(t, http.StatusConflict, s.raw(http.MethodPut, "/v1/topics/mail", `{"slots":4}`).status)

	require.True(t, do[wire.Topic](s, http.MethodPost, "/v1/topics/mail/pause", "").Paused)
	require.True(t, get[wire.TopicCounts](s, "/v1/topics/mail").Paused)
	require.True(t, do[wire.TopicChange](s, http.MethodPut, "/v1/topics/mail", `{"retries":3}`).Paused, "who changes something else resumes nothing")
	require.True(t, do[wire.TopicChange](s, http.MethodPut, "/v1/topics/mail", `{"paused":true}`).Paused)
	a := s.raw(http.MethodPut, "/v1/topics/mail", `{"paused":false,"retries":5}`)
	require.Equal(t, http.StatusConflict, a.status)
	require.Contains(t, a.problem(t).Detail, "paused false of topic mail, which is there with true: pause and resume change that")
	require.Equal(t, 16, get[wire.TopicCounts](s, "/v1/topics/mail").Retries, "nothing is changed then")
	require.False(t, do[wire.Topic](s, http.MethodPost, "/v1/topics/mail/resume", "").Paused)
	require.Equal(t, http.StatusConflict, s.raw(http.MethodPut, "/v1/topics/mail", `{"paused":true}`).status)
	require.True(t, do[wire.TopicChange](s, http.MethodPut, "/v1/topics/quiet", `{"paused":true}`).Paused, "a new one can be made so")
	s.ask(http.StatusNoContent, http.MethodDelete, "/v1/topics/quiet", "")
	s.ask(http.StatusCreated, http.MethodPut, "/v1/topics/mail/tasks/a", `{"after":"1h"}`)
	require.Equal(t, int64(1), get[wire.TopicCounts](s, "/v1/topics/mail").Counts.Pending)
	s.ask(http.StatusNoContent, http.MethodDelete, "/v1/topics/mail", "")
	s.ask(http.StatusNotFound, http.MethodGet, "/v1/topics/mail", "")
	require.Empty(t, get[wire.Topics](s, "/v1/topics").Topics)
}

func TestDeadLetters(t *testing.T) {
	s := start(t, Config{})
	broken := make(chan bool, 1)
	broken <- true
	s.run(map[string]timeout.Handler{"t": func(context.Context, timeout.Task) error {
		b := <-broken
		broken <- b
		if b {
			return errBroken
		}
		return nil
	}})
	for i := range 20 {
		s.ask(http.StatusCreated, http.MethodPut, fmt.Sprintf("/v1/topics/t/tasks/%d", i), `{}`)
	}
	counts := func() wire.Counts { return get[wire.TopicCounts](s, "/v1/topics/t").Counts }
	eventually(t, func() bool { return counts().Dead == 20 }, "all are dead")
	dead := get[wire.Tasks](s, "/v1/topics/t/tasks?state=dead&limit=3")
	require.Len(t, dead.Tasks, 3)
	require.Equal(t, "it is broken", dead.Tasks[0].Error)
	require.NotEmpty(t, dead.Tasks[0].Node)

	require.True(t, do[wire.Answer](s, http.MethodPost, "/v1/topics/t/tasks/3/replay", "").Changed)
	eventually(t, func() bool { return counts().Dead == 20 }, "it is dead again")
	require.Equal(t, wire.Answer{Was: timeout.None}, do[wire.Answer](s, http.MethodPost, "/v1/topics/t/tasks/none/replay", ""))
	<-broken
	broken <- false
	batch := do[wire.Answers](s, http.MethodPost, "/v1/tasks/replay", `{"keys":[{"topic":"t","id":"1"},{"topic":"t","id":"none"}]}`)
	require.True(t, batch.Answers[0].Changed)
	require.False(t, batch.Answers[1].Changed)
	eventually(t, func() bool { return counts().Done == 1 }, "it is done")
	s.ask(http.StatusCreated, http.MethodPut, "/v1/topics/t/tasks/waits", `{"after":"1h"}`)
	dropped := do[wire.Answers](s, http.MethodPost, "/v1/tasks/drop", `{"keys":[{"topic":"t","id":"waits"},{"topic":"t","id":"2"},{"topic":"t","id":"none"}]}`).Answers
	require.Equal(t, []bool{false, true, false}, []bool{dropped[0].Changed, dropped[1].Changed, dropped[2].Changed})
	require.Equal(t, []timeout.State{timeout.Pending, timeout.Dead, timeout.None}, []timeout.State{dropped[0].Was, dropped[1].Was, dropped[2].Was})
	require.Equal(t, timeout.Pending, get[wire.Task](s, "/v1/topics/t/tasks/waits").State, "what is not dead stays")
	require.Equal(t, wire.Cleared{Changed: 18, More: false}, do[wire.Cleared](s, http.MethodPost, "/v1/topics/t/dead/replay", ""))
	eventually(t, func() bool { return counts().Done == 19 }, "all are done")
	require.Equal(t, wire.Cleared{Changed: 0, More: false}, do[wire.Cleared](s, http.MethodPost, "/v1/topics/t/dead/replay", ""))

	<-broken
	broken <- true
	for i := range 1200 {
		require.NoError(t, func() error {
			_, err := s.center.Set(t.Context(), timeout.Task{Topic: "t", ID: fmt.Sprint("d", i%600)})
			return err
		}())
	}
	eventually(t, func() bool { return counts().Dead == 600 }, "all are dead")
	require.Equal(t, wire.Cleared{Changed: 600, More: false}, do[wire.Cleared](s, http.MethodPost, "/v1/topics/t/dead/drop", ""))
	require.Zero(t, counts().Dead)
}

// crowded is an engine with somebody else at work after each list.
type crowded struct {
	engine.Engine
	listed func()
}

func (c crowded) List(ctx context.Context, query timeout.Query) (timeout.Page, error) {
	page, err := c.Engine.List(ctx, query)
	c.listed()
	return page, err
}

func TestWhatIsSetAnewMeanwhileIsNotDropped(t *testing.T) {
	e := newEngine(t)
	set := func(id string, after time.Duration) {
		answers, err := e.Set(t.Context(), []timeout.Task{{Topic: "t", ID: id, After: after}})
		require.NoError(t, err)
		require.NoError(t, answers[0].Err)
	}
	die := func(ids ...string) {
		for _, id := range ids {
			set(id, 0)
		}
		batch, err := e.Lease(t.Context(), engine.Ask{Topic: "t", Node: "n", Max: len(ids), Lease: time.Hour})
		require.NoError(t, err)
		require.Len(t, batch.Leased, len(ids))
		var settle []engine.Outcome
		for _, leased := range batch.Leased {
			settle = append(settle, engine.Outcome{Token: leased.Token, As: timeout.Dead})
		}
		_, err = e.Lease(t.Context(), engine.Ask{Topic: "t", Node: "n", Settle: settle})
		require.NoError(t, err)
	}
	s := startOn(t, crowded{e, func() {
		set("waits", time.Hour)
		die("again")
	}}, Config{})
	do[wire.TopicChange](s, http.MethodPut, "/v1/topics/t", `{}`)
	die("waits", "again", "stays")
	state := func(id string) timeout.State {
		tasks, err := e.Get(t.Context(), []timeout.Key{{Topic: "t", ID: id}})
		require.NoError(t, err)
		return tasks[0].State
	}
	require.Equal(t, wire.Cleared{Changed: 1, More: false}, do[wire.Cleared](s, http.MethodPost, "/v1/topics/t/dead/drop", ""))
	require.Equal(t, []timeout.State{timeout.Pending, timeout.Dead, timeout.None}, []timeout.State{state("waits"), state("again"), state("stays")})

	seen := get[wire.Task](s, "/v1/topics/t/tasks/again").Version
	die("again")
	drop := func(id string, version int64) wire.Answer {
		return do[wire.Answers](s, http.MethodPost, "/v1/tasks/drop", fmt.Sprintf(`{"keys":[{"topic":"t","id":"%s","version":%d}]}`, id, version)).Answers[0]
	}
	found := drop("again", seen)
	require.False(t, found.Changed, "that is another dead letter")
	require.Equal(t, timeout.Dead, found.Was)
	require.Greater(t, found.Version, seen)
	require.True(t, drop("again", found.Version).Changed)
	require.Equal(t, timeout.None, state("again"))
	require.False(t, drop("waits", 0).Changed)
	removed := do[wire.Answers](s, http.MethodPost, "/v1/tasks/remove", `{"keys":[{"topic":"t","id":"waits","state":"running"},{"topic":"t","id":"waits","state":"pending"}]}`).Answers
	require.Equal(t, []bool{false, true}, []bool{removed[0].Changed, removed[1].Changed})
}

func TestFeedback(t *testing.T) {
	s := start(t, Config{})
	tokens := make(chan string, 10)
	s.run(map[string]timeout.Handler{"t": func(ctx context.Context, _ timeout.Task) error {
		token, _ := timeout.TokenOf(ctx)
		tokens <- token.String()
		return timeout.ErrAccepted
	}})
	state := func(id string) timeout.State { return get[wire.Task](s, "/v1/topics/t/tasks/"+id).State }

	s.ask(http.StatusCreated, http.MethodPut, "/v1/topics/t/tasks/good", `{}`)
	token := <-tokens
	require.Equal(t, timeout.Running, state("good"))
	require.True(t, do[wire.Settled](s, http.MethodPost, "/v1/feedback", `{"token":"`+token+`"}`).Settled)
	require.Equal(t, timeout.Done, state("good"))
	require.False(t, do[wire.Settled](s, http.MethodPost, "/v1/feedback", `{"token":"`+token+`"}`).Settled, "once")

	s.ask(http.StatusCreated, http.MethodPut, "/v1/topics/t/tasks/bad", `{}`)
	require.True(t, do[wire.Settled](s, http.MethodPost, "/v1/feedback", `{"token":"`+<-tokens+`","error":"no such order","permanent":true}`).Settled)
	require.Equal(t, timeout.Dead, state("bad"))

	do[wire.TopicChange](s, http.MethodPut, "/v1/topics/t", `{"retries":5}`)
	s.ask(http.StatusCreated, http.MethodPut, "/v1/topics/t/tasks/later", `{}`)
	require.True(t, do[wire.Settled](s, http.MethodPost, "/v1/feedback", `{"token":"`+<-tokens+`","error":"busy","retry_after":"1h"}`).Settled)
	later := get[wire.Task](s, "/v1/topics/t/tasks/later")
	require.Equal(t, timeout.Pending, later.State)
	require.Equal(t, "busy", later.Error)
	require.InDelta(t, time.Now().Add(time.Hour).Unix(), later.Until.Unix(), 60)

	for _, body := range []string{`"permanent":true`, `"retry_after":"1s"`, `"error":"x","permanent":true,"retry_after":"1s"`, `"error":"x","retry_after":"-1s"`, `"error":"x","retry_after":"876001h"`} {
		require.Equal(t, http.StatusBadRequest, s.raw(http.MethodPost, "/v1/feedback", `{"token":"`+token+`",`+body+`}`).status)
	}
}

// With keys, the token of a lease is the only authority that feedback needs, and none that can be
// made up.
func TestSignedFeedback(t *testing.T) {
	for signed, refusal := range map[bool]int{true: http.StatusOK, false: http.StatusUnauthorized} {
		var keys [][]byte
		if signed {
			keys = [][]byte{make([]byte, 32)}
		}
		s := startWith(t, newEngine(t), timeout.Config{FeedbackKeys: keys}, Config{SignedFeedback: signed, Tokens: []Token{{master, Admin, ""}}})
		tokens := make(chan timeout.Token, 10)
		s.run(map[string]timeout.Handler{"t": func(ctx context.Context, _ timeout.Task) error {
			token, _ := timeout.TokenOf(ctx)
			tokens <- token
			return timeout.ErrAccepted
		}})
		s.token = master
		s.ask(http.StatusCreated, http.MethodPut, "/v1/topics/t/tasks/a", `{}`)
		token := <-tokens
		s.token = ""
		tell := func(token timeout.Token) answered {
			return s.raw(http.MethodPost, "/v1/feedback", `{"token":"`+token.String()+`"}`)
		}
		if signed {
			another := token
			another.ID = "b"
			a := tell(another)
			require.Equal(t, http.StatusForbidden, a.status)
			require.Contains(t, a.problem(t).Detail, "forged token of t/b")
			large := `{"token":"` + strings.Repeat("x", 65<<10) + `"}`
			require.Equal(t, http.StatusRequestEntityTooLarge, s.raw(http.MethodPost, "/v1/feedback", large).status)
		}
		require.Equal(t, refusal, tell(token).status)
		s.token = master
		want := map[bool]timeout.State{true: timeout.Done, false: timeout.Running}[signed]
		require.Equal(t, want, get[wire.Task](s, "/v1/topics/t/tasks/a").State)
	}
}

func TestStats(t *testing.T) {
	s := start(t, Config{Engine: "an engine"})
	s.run(map[string]timeout.Handler{"works": func(context.Context, timeout.Task) error { return nil }, "fails": func(context.Context, timeout.Task) error { return errBroken }})
	s.ask(http.StatusCreated, http.MethodPut, "/v1/topics/nobody/tasks/1", `{}`)
	for i := range 5 {
		s.ask(http.StatusCreated, http.MethodPut, fmt.Sprintf("/v1/topics/works/tasks/%d", i), `{}`)
		s.ask(http.StatusCreated, http.MethodPut, fmt.Sprintf("/v1/topics/fails/tasks/%d", i), `{}`)
	}
	eventually(t, func() bool {
		stats := get[wire.Stats](s, "/v1/stats")
		if len(stats.Topics) != 3 {
			return false
		}
		fails, nobody, works := stats.Topics[0], stats.Topics[1], stats.Topics[2]
		return fails.Here != nil && fails.Here.Dead == 5 && works.Here != nil && works.Here.Done == 5 && works.Here.Early == 0 && works.Here.Late.Count == 5 &&
			fails.Counts.Dead == 5 && works.Counts.Done == 5 && nobody.Counts.Due == 1 && nobody.Here == nil
	}, "all is counted")
	stats := get[wire.Stats](s, "/v1/stats")
	require.Equal(t, "an engine", stats.Engine)
	require.Equal(t, s.center.Node(), stats.Members.Leader)
	for _, owner := range stats.Topics[2].Owners {
		require.Equal(t, s.center.Node(), owner)
	}
	require.Equal(t, []string{"", "", "", "", "", "", "", ""}, stats.Topics[1].Owners)
	members := get[wire.Members](s, "/v1/members")
	require.Equal(t, s.center.Node(), members.Nodes[0].Name)
	require.Equal(t, []string{engine.HandlersOnly, "fails", "works"}, members.Nodes[0].Topics)

	metrics := s.ask(http.StatusOK, http.MethodGet, "/metrics", "")
	for _, line := range []string{
		`heartwheel_timeout_done_total{topic="works"} 5`, `heartwheel_timeout_dead_total{topic="fails"} 5`, `heartwheel_timeout_early_total{topic="works"} 0`,
		`heartwheel_timeout_tasks{state="dead",topic="fails"} 5`, `heartwheel_timeout_lateness_seconds_count{topic="works"} 5`,
		`heartwheel_timeout_due_tasks{topic="nobody"} 1`, `heartwheel_timeout_engine_up 1`, `heartwheel_timeout_nodes 1`, `heartwheel_timeout_leader 1`, "go_goroutines ",
	} {
		require.Contains(t, metrics, "\n"+line, metrics)
	}
}

// narrow is an engine that notes how many counts there are at a time.
type narrow struct {
	engine.Engine
	now, most atomic.Int32
}

func (e *narrow) Count(ctx context.Context, topic string) (timeout.Counts, error) {
	if now := e.now.Add(1); now > e.most.Load() {
		e.most.Store(now)
	}
	defer e.now.Add(-1)
	time.Sleep(time.Millisecond) // so that counts would meet
	return e.Engine.Count(ctx, topic)
}

// Figures leave the engine's connections to tasks, however many topics there are and however many ask.
func TestStatsCountOneTopicAtATime(t *testing.T) {
	engine := &narrow{Engine: newEngine(t)}
	s := startOn(t, engine, Config{})
	for i := range 30 {
		do[wire.TopicChange](s, http.MethodPut, fmt.Sprintf("/v1/topics/t%d", i), `{}`)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { s.raw(http.MethodGet, "/v1/stats", "") })
	}
	all.Wait()
	for _, topic := range get[wire.Stats](s, "/v1/stats").Topics {
		require.NotNil(t, topic.Counts)
	}
	require.EqualValues(t, 1, engine.most.Load())
}

func TestHealth(t *testing.T) {
	var why error
	s := start(t, Config{Ready: func() error { return why }})
	require.Equal(t, "ok\n", s.ask(http.StatusOK, http.MethodGet, "/healthz", ""))
	require.Equal(t, "ok\n", s.ask(http.StatusOK, http.MethodGet, "/readyz", ""))
	why = errBroken
	require.Contains(t, s.ask(http.StatusServiceUnavailable, http.MethodGet, "/readyz", ""), "it is broken")
	why = nil
	require.NoError(t, s.center.Close())
	eventually(t, func() bool { return s.raw(http.MethodGet, "/readyz", "").status == http.StatusServiceUnavailable }, "it is not ready")
	s.ask(http.StatusServiceUnavailable, http.MethodGet, "/readyz", "")
	s.ask(http.StatusOK, http.MethodGet, "/healthz", "")
	a := s.raw(http.MethodPut, "/v1/topics/t/tasks/a", `{}`)
	require.Equal(t, http.StatusServiceUnavailable, a.status)
	require.Equal(t, "1", a.header.Get("Retry-After"))
	require.Contains(t, get[wire.Stats](s, "/v1/stats").Error, "closed")
	require.Contains(t, s.ask(http.StatusOK, http.MethodGet, "/metrics", ""), "heartwheel_timeout_engine_up 0")
}

// uncounted is an engine that takes for ever to count its tasks.
type uncounted struct{ engine.Engine }

func (uncounted) Count(ctx context.Context, _ string) (timeout.Counts, error) {
	<-ctx.Done()
	return timeout.Counts{}, ctx.Err()
}

func TestReadinessCountsNoTasks(t *testing.T) {
	s := startOn(t, uncounted{newEngine(t)}, Config{RequestTimeout: time.Second})
	s.ask(http.StatusCreated, http.MethodPut, "/v1/topics/t/tasks/a", `{"after":"1h"}`)
	s.ask(http.StatusGatewayTimeout, http.MethodGet, "/v1/topics/t", "")
	s.ask(http.StatusOK, http.MethodGet, "/readyz", "")
}

func TestExecutions(t *testing.T) {
	s := start(t, Config{})
	s.run(map[string]timeout.Handler{"t": func(context.Context, timeout.Task) error { return errBroken }})
	s.ask(http.StatusCreated, http.MethodPut, "/v1/topics/t/tasks/a", `{}`)
	eventually(t, func() bool { return get[wire.Task](s, "/v1/topics/t/tasks/a").State == timeout.Dead }, "it is dead")
	a := s.raw(http.MethodGet, "/v1/topics/t/tasks/a/executions?limit=5", "")
	s.validate(http.MethodGet, "/v1/topics/t/tasks/a/executions?limit=5", "", nil, a)
	var log wire.Executions
	read(t, a.body, &log)
	require.Len(t, log.Executions, 1)
	require.Equal(t, timeout.Dead, log.Executions[0].As)
	require.Equal(t, "it is broken", log.Executions[0].Error)
}

type unlogged struct{ engine.Engine }

func TestAnEngineWithoutALogNamesTheSettingForOne(t *testing.T) {
	s := startOn(t, unlogged{newEngine(t)}, Config{})
	a := s.raw(http.MethodGet, "/v1/topics/t/tasks/a/executions", "")
	s.validate(http.MethodGet, "/v1/topics/t/tasks/a/executions", "", nil, a)
	require.Equal(t, http.StatusNotImplemented, a.status)
	require.Contains(t, a.problem(t).Detail, "redis-executions is 0")
}

// The payloads of an answer are limited.
func TestManyLargePayloads(t *testing.T) {
	s := start(t, Config{})
	var keys []string
	for i := range 18 {
		_, err := s.center.Set(t.Context(), timeout.Task{Topic: "t", ID: fmt.Sprint(i), After: time.Hour, Payload: make([]byte, 1<<20)})
		require.NoError(t, err)
		keys = append(keys, fmt.Sprintf(`{"topic":"t","id":"%d"}`, i))
	}
	a := s.raw(http.MethodPost, "/v1/tasks/get", `{"keys":[`+strings.Join(keys, ",")+`]}`)
	require.Equal(t, http.StatusBadRequest, a.status)
	require.Contains(t, a.problem(t).Detail, "must have at most 16777216: ask for fewer")
	a = s.raw(http.MethodPost, "/v1/tasks/get", `{"keys":[`+strings.Join(keys[:16], ",")+`]}`) // too long for the validator
	require.Equal(t, http.StatusOK, a.status)
	require.Equal(t, 16, strings.Count(a.body, `"payload_base64"`))
	listed := map[string]bool{}
	for path, pages := "/v1/topics/t/tasks", 0; path != ""; pages++ {
		require.Less(t, pages, 18, "there are several on a page")
		page := get[wire.Tasks](s, path)
		for _, task := range page.Tasks {
			require.False(t, listed[task.ID])
			require.Equal(t, 1<<20, task.PayloadBytes)
			require.Empty(t, task.PayloadBase64, "lists have no payloads")
			listed[task.ID] = true
		}
		if path = ""; page.Next != "" {
			path = "/v1/topics/t/tasks?cursor=" + url.QueryEscape(page.Next)
		}
	}
	require.Len(t, listed, 18)
}

// And so are those of all answers together. Those of short payloads need no room.
func TestAnswersWithLargePayloadsWaitForRoom(t *testing.T) {
	s := start(t, Config{})
	s.handler.patience = time.Millisecond
	for id, size := range map[string]int{"long": smallBody + 1, "short": 10} {
		_, err := s.center.Set(t.Context(), timeout.Task{Topic: "t", ID: id, After: time.Hour, Payload: make([]byte, size)})
		require.NoError(t, err)
	}
	ask := func(id string) answered {
		return s.raw(http.MethodPost, "/v1/tasks/get", `{"keys":[{"topic":"t","id":"`+id+`"}]}`)
	}
	require.True(t, s.handler.got.TryAcquire(maxGot))
	refused := ask("long")
	require.Equal(t, http.StatusServiceUnavailable, refused.status)
	require.Equal(t, "1", refused.header.Get("Retry-After"))
	require.Contains(t, refused.problem(t).Detail, "no room for 4097 more, must have at most 67108864 together")
	require.Equal(t, http.StatusOK, ask("short").status)
	s.handler.got.Release(maxGot)
	s.handler.patience = eternal
	require.Equal(t, http.StatusOK, ask("long").status)
	require.Eventually(t, func() bool { return s.handler.got.TryAcquire(maxGot) }, eternal, time.Millisecond, "it is given back")
}
