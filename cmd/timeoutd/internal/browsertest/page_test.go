//go:build browser

// Package browsertest has the tests of the page in a real browser. It is a module of its own: those
// who install timeoutd need no browser.
package browsertest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/cmd/timeoutd/internal/api"
	"github.com/heartwheel-go/heartwheel/cmd/timeoutd/internal/peers"
	"github.com/heartwheel-go/heartwheel/internal/browsertest/tab"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

// evil is an id. As markup it would be an image with a script.
const evil = `<img src=x onerror="document.title='evil'">`

// run returns a running center.
func run(t *testing.T, e engine.Engine, cfg timeout.Config) *timeout.Center {
	center, err := timeout.New(e, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { center.Close() })
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- center.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return center
}

// serve serves the page of a running center.
func serve(t *testing.T, cfg api.Config) (*timeout.Center, string) {
	engine, err := memory.New(memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { engine.Close() })
	center := run(t, engine, timeout.Config{Node: "node-1", Topic: timeout.Topic{Retries: -1, Retain: time.Hour}})
	cfg.Engine = "memory"
	handler, err := api.New(center, cfg)
	require.NoError(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return center, server.URL
}

// traffic sets tasks in three topics: one works, one fails, and one is paused. answer changes how the
// second one ends. When it returns, no attempt with the answer before is left.
func traffic(t *testing.T, center *timeout.Center) (answer func(timeout.Handler)) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended })
	// A node with a handler for a missing topic makes it, and not paused. So the topics come first.
	_, err := center.SetTopic(ctx, timeout.Topic{Name: "orders", Slots: 32, Retain: time.Minute})
	require.NoError(t, err)
	_, err = center.SetTopic(ctx, timeout.Topic{Name: "payments", Retries: -1, Retain: time.Minute})
	require.NoError(t, err)
	_, err = center.SetTopic(ctx, timeout.Topic{Name: "mail", Paused: true})
	require.NoError(t, err)
	require.NoError(t, center.Handle("orders", func(context.Context, timeout.Task) error { time.Sleep(3 * time.Millisecond); return nil }))
	bank := new(atomic.Pointer[timeout.Handler])
	answer = func(handler timeout.Handler) {
		bank.Store(&handler)
		require.Eventually(t, func() bool { return count(t, center).Running == 0 }, tab.Eternal, 10*time.Millisecond)
	}
	first := timeout.Handler(func(_ context.Context, task timeout.Task) error {
		if strings.HasSuffix(task.ID, "7") {
			return errors.New("the bank says no: " + evil)
		}
		return nil
	})
	bank.Store(&first)
	require.NoError(t, center.Handle("payments", func(ctx context.Context, task timeout.Task) error { return (*bank.Load())(ctx, task) }))
	require.NoError(t, center.Handle("mail", func(context.Context, timeout.Task) error { return nil }))
	_, err = center.Set(ctx, timeout.Task{Topic: "mail", ID: evil, After: time.Hour, Payload: []byte(`{"to":"a@b","n":12345678901234567890}`)})
	require.NoError(t, err)
	_, err = center.Set(ctx, timeout.Task{Topic: "mail", ID: "/", After: time.Hour, Payload: []byte{0xff}})
	require.NoError(t, err)
	go func() {
		defer close(ended)
		for i := 0; ctx.Err() == nil; i++ {
			var tasks []timeout.Task
			for k := range 5 {
				tasks = append(tasks, timeout.Task{Topic: "orders", ID: fmt.Sprintf("order-%d", i*5+k), After: time.Duration(k) * time.Second})
			}
			tasks = append(tasks, timeout.Task{Topic: "payments", ID: fmt.Sprintf("payment-%d", i), After: 100 * time.Millisecond},
				timeout.Task{Topic: "mail", ID: fmt.Sprintf("mail-%d", i%40)})
			_, _ = center.SetAll(ctx, tasks)
			time.Sleep(20 * time.Millisecond)
		}
	}()
	return answer
}

func TestThePageWithTraffic(t *testing.T) {
	t.Parallel()
	center, url := serve(t, api.Config{})
	answer := traffic(t, center)
	well := func(context.Context, timeout.Task) error { return nil }
	b := tab.Open(t, url+"/", 1440, 1000)
	b.Until(`document.body.dataset.drawn >= 4`)
	cell := func(topic string, n int) string {
		return fmt.Sprintf(`document.querySelector("[data-topic=%s] td:nth-child(%d)").textContent`, topic, n)
	}
	b.Run("topics have their figures", func(t *testing.T) {
		require.Equal(t, 3, tab.Eval[int](b, `document.querySelectorAll("#topics [data-topic]").length`))
		b.Until(`Number(` + cell("orders", 6) + `.replaceAll(",", "")) > 20`)
		b.Until(`Number(` + cell("payments", 8) + `) > 0`)
		require.Equal(t, "0", tab.Eval[string](b, cell("orders", 10)), "early")
		require.Contains(t, tab.Eval[string](b, cell("mail", 1)), "paused")
		b.Until(`document.querySelector("#tile-early .value").textContent === "0"`)
		b.Until(`document.querySelector("#tile-done .value").textContent !== "0/s"`)
		b.Until(`document.querySelectorAll("#late .bar").length > 0`)
		b.Until(`document.querySelector("#chart-done .stroke.c-done")`)
		require.Contains(t, tab.Eval[string](b, `$("nodes").textContent`), "node-1 this one")
	})
	b.Keep("page.png", "light", 1440, 1000)
	b.Keep("page-dark.png", "dark", 1440, 1000)
	b.Keep("page-phone.png", "light", 390, 1180)
	b.Do(chromedp.EmulateViewport(1440, 1000))
	b.Run("what comes from outside is text", func(t *testing.T) {
		b.Press("#topics", "mail")
		b.Until(`[...document.querySelectorAll("#tasks tbody td.id")].some((td) => td.title === ` + "`" + evil + "`" + `)`)
		require.Zero(t, tab.Eval[int](b, `document.querySelectorAll("img").length`))
		require.NotEqual(t, "evil", tab.Eval[string](b, `document.title`))
		require.Equal(t, 8, tab.Eval[int](b, `document.querySelectorAll("#strip i").length`))
	})
	b.Keep("topic.png", "light", 1440, 1400)
	b.Run("a look at a task", func(t *testing.T) {
		b.Press(`#tasks [data-id="`+strings.ReplaceAll(evil, `"`, `\"`)+`"]`, "Look")
		b.Until(`$("look").open && $("look").dataset.state === "pending"`)
		require.Contains(t, tab.Eval[string](b, `$("look-payload").textContent`), "12345678901234567890", "no digit is lost")
		b.Keep("look.png", "dark", 1440, 1000)
		b.Press("#look-actions", "Remove")
		require.Equal(t, timeout.Pending, state(t, center, "mail", evil), "one click only asks")
		b.PressSurely("#look-actions", "Remove", "Really remove?")
		b.Until(`$("look").dataset.state !== "pending"`)
		b.Click("#look-close")
		b.Press(`#tasks [data-id="/"]`, "Look")
		b.Until(`$("look-title").textContent === "mail//" && $("look-kind").textContent.startsWith("Base64")`)
		b.Press("#look-actions", "Run now")
		b.Until(`$("said").textContent.includes("runs now")`)
		b.Click("#look-close")
	})
	b.Run("pause and resume", func(t *testing.T) {
		b.Press(`[data-topic=mail]`, "Resume")
		b.Until(`!` + cell("mail", 1) + `.includes("paused")`)
		b.Until(`Number(` + cell("mail", 6) + `.replaceAll(",", "")) > 0`)
		b.Press(`[data-topic=orders]`, "Pause")
		b.Until(cell("orders", 1) + `.includes("paused")`)
		topic, err := center.Topic(t.Context(), "orders")
		require.NoError(t, err)
		require.True(t, topic.Paused)
	})
	b.Run("what is dead", func(t *testing.T) {
		b.Press("#topics", "payments")
		b.Until(`(() => { const e = document.querySelector("#tabs [data-state=dead]"); e?.click(); return !!e; })()`) // its text has a number
		b.Until(`$("tasks").tBodies[0].dataset.drawn === "dead" && document.querySelectorAll("#tasks [data-id]").length > 0`)
		id := tab.Eval[string](b, `document.querySelector("#tasks [data-id]").dataset.id`)
		require.Equal(t, timeout.Dead, state(t, center, "payments", id))
		b.Until(`document.querySelectorAll("#causes [data-cause]").length === 1`)
		why := tab.Eval[string](b, `document.querySelector("#causes [data-cause]").textContent`)
		require.Contains(t, why, "the bank says no: "+evil+"handler")
		require.Contains(t, why, "payment-")
		b.Keep("dead.png", "light", 1440, 1400)
		b.Keep("dead-phone.png", "dark", 390, 1180)
		b.Do(chromedp.EmulateViewport(1440, 1000))
		b.Press("#causes [data-cause]", "Replay")
		b.Until(`/^[0-9]+ tasks? run again/.test($("said").textContent)`)
		require.Eventually(t, func() bool { return dead(t, center) > 0 }, tab.Eternal, 10*time.Millisecond) // once more
		b.Click("#tabs [data-state=dead]")
		b.Until(`document.querySelectorAll("#causes [data-cause]").length === 1`)
		b.Press("#causes [data-cause]", "Drop")
		require.Positive(t, dead(t, center), "one click only asks")
		b.Until(`document.querySelectorAll("#tasks [data-id]").length > 0`)
		id = tab.Eval[string](b, `document.querySelector("#tasks [data-id]").dataset.id`)
		answer(well)
		b.Press(`#tasks [data-id="`+id+`"]`, "Replay")
		require.Eventually(t, func() bool { return state(t, center, "payments", id) == timeout.Done }, tab.Eternal, 10*time.Millisecond)
		b.Press("#all-dead", "Replay all")
		b.Until(`$("said").textContent.includes("run again")`)
		require.Eventually(t, func() bool { return dead(t, center) == 0 }, tab.Eternal, 10*time.Millisecond)
		answer(func(context.Context, timeout.Task) error { return errors.New("no") })
		require.Eventually(t, func() bool { return dead(t, center) > 5 }, tab.Eternal, 10*time.Millisecond)
		answer(well)
		b.Until(`document.querySelector("#all-dead button:nth-child(2)")`)
		require.Eventually(t, func() bool { // until then the list can be from before
			id = tab.Eval[string](b, `document.querySelector("#tasks [data-id]")?.dataset.id || ""`)
			return id != "" && state(t, center, "payments", id) == timeout.Dead
		}, tab.Eternal, 50*time.Millisecond)
		b.Press(`#tasks [data-id="`+id+`"]`, "Drop")
		require.Equal(t, timeout.Dead, state(t, center, "payments", id), "one click only asks")
		b.PressSurely(`#tasks [data-id="`+id+`"]`, "Drop", "Really drop?")
		b.Until(`$("said").textContent === "` + id + ` is dropped."`)
		require.Positive(t, dead(t, center), "and no other is")
		require.True(t, tab.Eval[bool](b, `(() => {
			const drop = document.querySelector("#all-dead button:nth-child(2)");
			drop.click();
			drop.id = "asks";
			$("tasks").tBodies[0].dataset.drawn = "before";
			return drop.textContent === "Really drop all?";
		})()`))
		require.Positive(t, dead(t, center), "one click only asks")
		b.Until(`$("tasks").tBodies[0].dataset.drawn === "dead"`)
		require.True(t, tab.Eval[bool](b, `!!$("asks")`), "the list was drawn again, and the button goes on asking")
		b.PressSurely("#all-dead", "Drop all", "Really drop all?")
		require.Eventually(t, func() bool { return dead(t, center) == 0 }, tab.Eternal, 10*time.Millisecond)
	})
	b.Run("freeze", func(t *testing.T) {
		b.Click("#pause")
		b.Until(`$("live").textContent === "frozen"`)
		time.Sleep(300 * time.Millisecond)
		drawn := tab.Eval[string](b, `document.body.dataset.drawn`)
		time.Sleep(1500 * time.Millisecond)
		require.Equal(t, drawn, tab.Eval[string](b, `document.body.dataset.drawn`))
		b.Click("#pause")
		b.Until(`document.body.dataset.drawn !== "` + drawn + `"`)
	})
	requireQuiet(t, b, url)
}

func state(t *testing.T, center *timeout.Center, topic, id string) timeout.State {
	task, err := center.Get(t.Context(), timeout.Key{Topic: topic, ID: id})
	require.NoError(t, err)
	return task.State
}

func dead(t *testing.T, center *timeout.Center) int64 { return count(t, center).Dead }

func count(t *testing.T, center *timeout.Center) timeout.Counts {
	counts, err := center.Count(t.Context(), "payments")
	require.NoError(t, err)
	return counts
}

func TestThePageWithNothing(t *testing.T) {
	t.Parallel()
	_, url := serve(t, api.Config{})
	b := tab.Open(t, url+"/#nobody", 1440, 1000)
	b.Until(`document.body.dataset.drawn >= 2`)
	require.Contains(t, tab.Eval[string](b, `$("topics").textContent`), "No topics yet")
	require.True(t, tab.Eval[bool](b, `$("topic-card").hidden`))
	b.Keep("empty.png", "light", 1440, 1000)
	b.Keep("empty-phone.png", "dark", 390, 900)
	requireQuiet(t, b, url)
}

func TestThePageWithFiftyTopics(t *testing.T) {
	t.Parallel()
	center, url := serve(t, api.Config{})
	for i := range 50 {
		name := fmt.Sprintf("%s-%02d", []string{"orders", "a-topic-with-a-rather-long-name:which-somebody.has_chosen", "mail"}[i%3], i)
		_, err := center.SetTopic(t.Context(), timeout.Topic{Name: name, Slots: 1 << (i % 11)})
		require.NoError(t, err)
		require.NoError(t, center.Handle(name, func(context.Context, timeout.Task) error { return nil }))
		for k := range i {
			_, err := center.Set(t.Context(), timeout.Task{Topic: name, ID: fmt.Sprint(k), After: time.Duration(k%3) * time.Hour})
			require.NoError(t, err)
		}
	}
	b := tab.Open(t, url+"/", 1440, 1000)
	b.Until(`document.querySelectorAll("#topics [data-topic]").length === 50`)
	b.Until(`document.body.dataset.drawn >= 3`)
	b.Keep("fifty.png", "dark", 1440, 1300)
	b.Keep("fifty-phone.png", "light", 390, 1180)
	tab.Eval[bool](b, `(() => { $("filter").value = "MAIL-0"; $("filter").dispatchEvent(new Event("input")); return true; })()`)
	b.Until(`document.querySelectorAll("#topics [data-topic]").length === 3`)
	require.LessOrEqual(t, tab.Eval[int](b, `document.documentElement.scrollWidth`), 1440)
	requireQuiet(t, b, url)
}

// openDead opens the page of so many topics, with the dead tasks of topic a. It has one.
func openDead(t *testing.T, center *timeout.Center, url string, topics int) *tab.Tab {
	require.NoError(t, center.Handle("a", func(context.Context, timeout.Task) error { return errors.New("no") }))
	_, err := center.Set(t.Context(), timeout.Task{Topic: "a", ID: "1"})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return state(t, center, "a", "1") == timeout.Dead }, tab.Eternal, 10*time.Millisecond)
	b := tab.Open(t, url+"/", 1440, 1000)
	b.Until(`document.querySelectorAll("#topics [data-topic]").length === ` + strconv.Itoa(topics))
	b.Press("#topics", "a")
	b.Click("#tabs [data-state=dead]")
	b.Until(`document.querySelector("#all-dead button")`)
	return b
}

// The server clears many dead tasks in several answers. Meanwhile somebody looks at another topic.
func TestClearingATopicStaysWithIt(t *testing.T) {
	t.Parallel()
	center, url := serve(t, api.Config{})
	require.NoError(t, center.Handle("b", func(context.Context, timeout.Task) error { return nil }))
	b := openDead(t, center, url, 2)
	require.True(t, tab.Eval[bool](b, `(() => {
		const real = window.fetch;
		window.asked = [];
		window.fetch = async (path, o) => {
			if (!path.includes("/dead/") || o.method !== "POST") return real(path, o);
			const first = asked.push(path) === 1;
			if (first) await new Promise((done) => { window.goOn = done; });
			return new Response(JSON.stringify({ changed: 1, more: first, next: first ? "1.x" : "" }));
		};
		return true;
	})()`))
	b.Press("#all-dead", "Replay all")
	b.Until(`window.goOn`)
	b.Press("#topics", "b")
	b.Until(`document.querySelector("[data-topic=b].chosen")`)
	require.True(t, tab.Eval[bool](b, `(() => { goOn(); return true; })()`))
	b.Until(`asked.length === 2`)
	require.Equal(t, "/v1/topics/a/dead/replay? /v1/topics/a/dead/replay?cursor=1.x", tab.Eval[string](b, `asked.join(" ")`))
	b.Until(`$("said").textContent === "a: 2 tasks run again."`)
}

// A later answer fails. The tasks of those before it run again, and the page says how many.
func TestAFailureKeepsTheCountOfWhatWasCleared(t *testing.T) {
	t.Parallel()
	center, url := serve(t, api.Config{})
	b := openDead(t, center, url, 1)
	require.True(t, tab.Eval[bool](b, `(() => {
		const real = window.fetch;
		window.well = 2;
		window.fetch = async (path, o) => {
			if (!path.includes("/dead/") || o.method !== "POST") return real(path, o);
			if (well-- > 0) return new Response(JSON.stringify({ changed: 700, more: true, next: "1.x" }));
			return new Response(JSON.stringify({ detail: "the store is away" }), { status: 502 });
		};
		return true;
	})()`))
	for _, want := range []string{"1,400 tasks run again, and then: the store is away", "the store is away"} {
		b.Press("#all-dead", "Replay all")
		b.Until(`$("said").textContent === ` + strconv.Quote(want) + ` && $("said").classList.contains("bad")`)
	}
}

// Nobody sees the tasks of a closed topic, so the page asks for none.
func TestTheTasksOfAClosedTopicAreNotAskedFor(t *testing.T) {
	t.Parallel()
	center, url := serve(t, api.Config{})
	_, err := center.SetTopic(t.Context(), timeout.Topic{Name: "mail"})
	require.NoError(t, err)
	b := tab.Open(t, url+"/#mail", 1440, 1000)
	require.True(t, tab.Eval[bool](b, `(() => {
		const real = window.fetch;
		window.asked = 0;
		window.fetch = (path, o) => { if (path.includes("/tasks?")) asked++; return real(path, o); };
		return true;
	})()`))
	b.Until(`asked > 1`) // the list draws itself every three seconds, and the figures every second
	b.Click("#topic-close")
	b.Until(`$("topic-card").hidden`)
	require.True(t, tab.Eval[bool](b, `(() => { asked = 0; window.then = Number(document.body.dataset.drawn); return true; })()`))
	b.Until(`Number(document.body.dataset.drawn) > then + 6`)
	require.Zero(t, tab.Eval[int](b, `asked`))
}

// The page asks for a token, keeps it in the tab, and says what it may not do.
func TestThePageWithTokens(t *testing.T) {
	t.Parallel()
	const reader, master = "reader-0123456789", "master-0123456789"
	center, url := serve(t, api.Config{Tokens: []api.Token{{Secret: reader, Scope: api.Read}, {Secret: master, Scope: api.Admin}}})
	_, err := center.SetTopic(t.Context(), timeout.Topic{Name: "mail"})
	require.NoError(t, err)
	b := tab.Open(t, url+"/", 1440, 1000)
	b.Until(`$("token-box").open && $("token-why").textContent.includes("wants a token")`)
	b.Keep("token.png", "light", 1440, 1000)
	use := func(token string) {
		b.Until(`$("token-box").open`)
		tab.Eval[bool](b, fmt.Sprintf(`(() => { $("token").value = %q; return true; })()`, token))
		b.Click("#token-go")
	}
	use("wrong-0123456789")
	b.Until(`$("token-box").open && $("token-why").textContent.includes("does not know")`)
	use(reader)
	b.Until(`document.querySelector("[data-topic=mail]")`)
	b.Press("[data-topic=mail]", "Pause")
	b.Until(`$("notices").textContent.includes("the token has scope read, must have admin")`)
	topic, err := center.Topic(t.Context(), "mail")
	require.NoError(t, err)
	require.False(t, topic.Paused)

	b.Click("#forget")
	use(master)
	b.Until(`$("live").textContent === "live" && document.querySelector("[data-topic=mail]")`)
	b.Press("[data-topic=mail]", "Pause")
	b.Until(`document.querySelector("[data-topic=mail]").textContent.includes("paused")`)
	b.Do(chromedp.Reload())
	b.Until(`document.querySelector("[data-topic=mail]")`)
	require.NotContains(t, tab.Eval[string](b, `JSON.stringify(localStorage) + document.cookie`), master)
}

// Three nodes share the tasks, and the page of one has the sums of all. It names a node that does not
// answer, and what such a node adds when it answers again is no work of that moment.
func TestThePageWithThreeNodes(t *testing.T) {
	t.Parallel()
	engine, err := memory.New(memory.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { engine.Close() })
	var hangs atomic.Bool
	does := func(context.Context, timeout.Task) error { return nil }
	serve := func(name string, cfg api.Config) (*timeout.Center, string) {
		center := run(t, engine, timeout.Config{Node: name})
		cfg.Engine = "memory"
		handler, err := api.New(center, cfg)
		require.NoError(t, err)
		require.NoError(t, center.Handle("orders", does))
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if name == "node-3" && hangs.Load() {
				<-r.Context().Done()
				return
			}
			handler.ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		return center, server.URL
	}
	center2, second := serve("node-2", api.Config{})
	center3, third := serve("node-3", api.Config{})
	others, err := peers.New([]string{second, third}, "")
	require.NoError(t, err)
	t.Cleanup(func() { others.Close() })
	center, url := serve("node-1", api.Config{Peers: others.Ask})
	require.Eventually(t, func() bool { // each slot has one node, and each node has slots
		slots := 0
		for _, one := range []*timeout.Center{center, center2, center3} {
			_ = one.Handle("orders", does) // it looks at the members now
			stats := one.Stats()
			if len(one.View().Nodes) != 3 || len(stats) != 1 || len(stats[0].Slots) == 0 {
				return false
			}
			slots += len(stats[0].Slots)
		}
		return slots == 8
	}, tab.Eternal, 10*time.Millisecond)
	for i := range 300 {
		_, err := center.Set(t.Context(), timeout.Task{Topic: "orders", ID: fmt.Sprint(i)})
		require.NoError(t, err)
	}
	b := tab.Open(t, url+"/", 1440, 1000)
	const done = `document.querySelector("[data-topic=orders] td:nth-child(6)").textContent`
	// On a busy machine a node can miss an answer now and then, so each condition is of one drawing.
	b.Until(`document.querySelector("[data-topic=orders]") && ` + done + ` === "300" && $("topics-note").textContent.includes("are of all 3 nodes") && !$("notice-partial")`)
	b.Until(`document.querySelector("#tile-done .value").textContent === "0/s"`)
	b.Keep("nodes.png", "light", 1440, 1000)

	hangs.Store(true)
	b.Until(`["No figures of node-3", "` + third + `"].every((text) => $("notice-partial")?.textContent.includes(text)) && $("topics-note").textContent.includes("are of 2 of 3 nodes")`)
	b.Until(`Number(` + done + `) < 300`)
	require.Equal(t, "0/s", tab.Eval[string](b, `document.querySelector("#tile-done .value").textContent`))
	b.Keep("partial.png", "light", 1440, 1000)
	b.Keep("partial-phone.png", "dark", 390, 1180)

	hangs.Store(false)
	b.Until(`!$("notice-partial") && ` + done + ` === "300"`)
	require.Equal(t, "0/s", tab.Eval[string](b, `document.querySelector("#tile-done .value").textContent`))
	requireQuiet(t, b, url)
}

// requireQuiet requires a console without errors, and requests to this server only.
func requireQuiet(t *testing.T, b *tab.Tab, url string) {
	t.Helper()
	for _, m := range b.Messages() {
		require.NotContains(t, strings.ToLower(m), "error", m)
		require.NotContains(t, strings.ToLower(m), "refused", m)
	}
	b.RequireOwnRequests(func(r string) bool { return strings.HasPrefix(r, url+"/") })
}
