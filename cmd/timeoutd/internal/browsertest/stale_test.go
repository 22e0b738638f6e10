//go:build browser

package browsertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/cmd/timeoutd/internal/api"
	"github.com/heartwheel-go/heartwheel/internal/browsertest/tab"
	"github.com/heartwheel-go/heartwheel/timeout"
)

// hold keeps the page's requests back if a condition about their path and options is true. Each of them
// is in held until free lets it go. The list that the page repeats can be among them at any time, so the
// condition is about what the next click asks for.
func hold(b *tab.Tab, condition string) {
	tab.Eval[bool](b, `(() => {
		const real = window.real ||= window.fetch;
		window.held = [];
		window.answered = 0;
		window.fetch = async (path, o) => {
			if (!(`+condition+`)) return real(path, o);
			await new Promise((go) => held.push({ path, go }));
			const answer = await real(path, o);
			setTimeout(() => answered++, 100); // the page has read it by then
			return answer;
		};
		return true;
	})()`)
}

func free(b *tab.Tab, which int) {
	answered := tab.Eval[int](b, `answered`)
	tab.Eval[bool](b, fmt.Sprintf(`(held[%d].go(), true)`, which))
	b.Until(fmt.Sprintf(`answered > %d`, answered))
}

// later sets a task that is due in an hour.
func later(t *testing.T, center *timeout.Center, topic, id string) {
	_, err := center.Set(t.Context(), timeout.Task{Topic: topic, ID: id, After: time.Hour})
	require.NoError(t, err)
}

// The page's own anchor is no topic, whatever topics are called.
func TestATopicCanBeCalledMain(t *testing.T) {
	t.Parallel()
	center, url := serve(t, api.Config{})
	later(t, center, "main", "1")
	b := tab.Open(t, url+"/", 1440, 1000)
	b.Press("#topics", "main")
	b.Until(`!$("topic-card").hidden && $("topic-title").textContent === "main" && document.querySelector("#tasks [data-id]")`)
	tab.Eval[bool](b, `(document.querySelector(".skip").click(), true)`)
	drawn := tab.Eval[string](b, `document.body.dataset.drawn`)
	b.Until(`document.body.dataset.drawn !== "` + drawn + `"`)
	require.True(t, tab.Eval[bool](b, `!$("topic-card").hidden && document.querySelector(":target") === document.querySelector("main")`))
}

// A list that takes longer than the pause between two lists is waited for.
func TestASlowListIsDrawn(t *testing.T) {
	t.Parallel()
	center, url := serve(t, api.Config{})
	later(t, center, "mail", "1")
	b := tab.Open(t, url+"/", 1440, 1000)
	b.Until(`document.body.dataset.drawn >= 1`)
	hold(b, `path.includes("/tasks?")`)
	tab.Eval[bool](b, `(window.ticks = 0, setInterval(() => ticks++, 3000), true)`)
	b.Press("#topics", "mail")
	b.Until(`ticks >= 2`)
	require.Equal(t, 1, tab.Eval[int](b, `held.length`))
	free(b, 0)
	b.Until(`document.querySelector("#tasks [data-id]")`)
}

// A request with the token before this one says nothing about this one.
func TestARefusalOfAnEarlierToken(t *testing.T) {
	t.Parallel()
	const reader = "reader-0123456789"
	center, url := serve(t, api.Config{Tokens: []api.Token{{Secret: reader, Scope: api.Read}}})
	later(t, center, "mail", "1")
	b := tab.Open(t, url+"/", 1440, 1000)
	b.Until(`$("token-box").open`)
	tab.Eval[bool](b, `($("token").value = "`+reader+`", $("token-go").click(), true)`)
	b.Press("#topics", "mail")
	b.Until(`document.querySelector("#tasks [data-id]")`)
	hold(b, `path.includes("/tasks?state=dead")`)
	tab.Eval[bool](b, `(token.set("wrong-0123456789"), document.querySelector("#tabs [data-state=dead]").click(), token.set("`+reader+`"), true)`)
	b.Until(`held.length === 1`)
	free(b, 0)
	b.Until(`$("tasks").textContent.includes("the token is not known")`)
	require.False(t, tab.Eval[bool](b, `$("token-box").open`))

	b.Run("nothing is asked for before there is another one", func(t *testing.T) {
		tab.Eval[bool](b, `(token.set("wrong-0123456789"), true)`)
		b.Until(`$("token-box").open`)
		hold(b, `path.includes("/tasks?")`)
		tab.Eval[bool](b, `(window.ticks = 0, setInterval(() => ticks++, 3000), true)`)
		b.Until(`ticks >= 2`)
		require.Zero(t, tab.Eval[int](b, `held.length`))
	})
}

// Nothing that a token has shown is left when it is forgotten.
func TestSigningOutLeavesNothing(t *testing.T) {
	t.Parallel()
	const reader = "reader-0123456789"
	center, url := serve(t, api.Config{Tokens: []api.Token{{Secret: reader, Scope: api.Read}}})
	later(t, center, "mail", "confidential")
	b := tab.Open(t, url+"/#mail", 1440, 1000)
	b.Until(`$("token-box").open`)
	tab.Eval[bool](b, `($("token").value = "`+reader+`", $("token-go").click(), true)`)
	b.Until(`document.body.textContent.includes("confidential")`)
	b.Click("#forget")
	b.Until(`$("token-box").open`)
	require.False(t, tab.Eval[bool](b, `document.body.textContent.includes("confidential")`))
}

// The box of a task shows the task that was chosen last, however long the answers take.
func TestTheBoxIsOfOneTask(t *testing.T) {
	t.Parallel()
	center, url := serve(t, api.Config{})
	require.NoError(t, center.Handle("mail", func(context.Context, timeout.Task) error { return errors.New("no") }))
	_, err := center.Set(t.Context(), timeout.Task{Topic: "mail", ID: "a"})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return state(t, center, "mail", "a") == timeout.Dead }, tab.Eternal, 10*time.Millisecond)
	_, err = center.Replay(t.Context(), []timeout.Key{{Topic: "mail", ID: "a"}})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return state(t, center, "mail", "a") == timeout.Dead }, tab.Eternal, 10*time.Millisecond)
	require.NoError(t, center.Pause(t.Context(), "mail"))
	_, err = center.Replay(t.Context(), []timeout.Key{{Topic: "mail", ID: "a"}})
	require.NoError(t, err)
	later(t, center, "mail", "b")
	b := tab.Open(t, url+"/#mail", 1440, 1000)
	b.Until(`document.querySelectorAll("#tasks [data-id]").length === 2`)
	look := func(id string) {
		tab.Eval[bool](b, `(document.querySelector("#tasks [data-id=`+id+`] .link").click(), true)`)
	}
	const isB = `$("look").open && $("look-title").textContent === "mail/b" && $("look-attempts").textContent === "None has ended."`

	b.Run("chosen before the other one", func(t *testing.T) {
		hold(b, `path === "/v1/tasks/get" && o.body.includes('"a"')`)
		look("a")
		look("b")
		b.Until(isB)
		free(b, 0)
		require.True(t, tab.Eval[bool](b, isB))
		b.Click("#look-close")
	})
	b.Run("its attempts come late", func(t *testing.T) {
		hold(b, `path.includes("/tasks/a/executions")`)
		look("a")
		b.Until(`held.length === 1`)
		b.Click("#look-close")
		look("b")
		b.Until(isB)
		free(b, 0)
		require.True(t, tab.Eval[bool](b, isB))
		b.Click("#look-close")
	})
	b.Run("the attempts of the next one come late", func(t *testing.T) {
		hold(b, `path.includes("/tasks/b/executions")`)
		look("a")
		b.Until(`$("look-title").textContent === "mail/a" && $("look-attempts").textContent.includes("attempt 1")`)
		b.Click("#look-close")
		look("b")
		b.Until(`held.length === 1`)
		require.Empty(t, tab.Eval[string](b, `$("look-attempts").tBodies[0].textContent`))
		free(b, 0)
		b.Until(isB)
		b.Click("#look-close")
	})
	b.Run("closed before the answer to a button", func(t *testing.T) {
		hold(b, `path === "/v1/tasks/move"`)
		look("a")
		b.Until(`$("look-title").textContent === "mail/a" && $("look-actions").firstChild`)
		b.Press("#look-actions", "Run now")
		b.Until(`held.length === 1`)
		b.Click("#look-close")
		look("b")
		b.Until(isB)
		free(b, 0)
		b.Until(`$("said").textContent.includes("runs now")`)
		require.True(t, tab.Eval[bool](b, isB))
		b.Click("#look-close")
	})
	b.Run("closed before it is shown again", func(t *testing.T) {
		look("b")
		b.Until(isB)
		hold(b, `path === "/v1/tasks/get"`)
		b.Press("#look-actions", "Run now")
		b.Until(`held.length === 1`)
		b.Click("#look-close")
		free(b, 0)
		require.False(t, tab.Eval[bool](b, `$("look").open`))
	})
}

// A list of another state begins with its first page, and without the buttons of the state before.
func TestAnotherStateHasNothingOfTheOneBefore(t *testing.T) {
	t.Parallel()
	center, url := serve(t, api.Config{})
	for i := range 60 {
		later(t, center, "mail", fmt.Sprint(i))
	}
	b := tab.Open(t, url+"/#mail", 1440, 1000)
	b.Until(`document.querySelectorAll("#tasks [data-id]").length === 50 && !$("next").disabled`)
	hold(b, `path.includes("/tasks?state=done")`)
	tab.Eval[bool](b, `(document.querySelector("#tabs [data-state=done]").click(), $("next").click(), true)`)
	b.Until(`held.length === 2`)
	require.NotContains(t, tab.Eval[string](b, `held.map((one) => one.path).join(" ")`), "cursor=")

	b.Run("the way back from a page that fails", func(t *testing.T) {
		b.Do(chromedp.Reload())
		b.Until(`document.querySelectorAll("#tasks [data-id]").length === 50 && !$("next").disabled`)
		tab.Eval[bool](b, `(() => {
			const real = window.fetch;
			window.fetch = (path, o) => path.includes("cursor=") ? Promise.reject(new TypeError("away")) : real(path, o);
			return true;
		})()`)
		b.Click("#next")
		b.Until(`$("tasks").textContent.includes("can't be reached")`)
		require.False(t, tab.Eval[bool](b, `$("first").disabled`))
		b.Click("#first")
		b.Until(`document.querySelectorAll("#tasks [data-id]").length === 50`)
	})
}

// A filter in use stays in sight, however few topics there are.
func TestAFilterInUseCanBeSeen(t *testing.T) {
	t.Parallel()
	center, url := serve(t, api.Config{})
	for i := range 9 {
		later(t, center, fmt.Sprintf("topic-%d", i), "1")
	}
	b := tab.Open(t, url+"/", 1440, 1000)
	b.Until(`document.querySelectorAll("#topics [data-topic]").length === 9`)
	tab.Eval[bool](b, `($("filter").value = "topic-1", $("filter").dispatchEvent(new Event("input")), true)`)
	b.Until(`document.querySelectorAll("#topics [data-topic]").length === 1`)
	require.NoError(t, center.DropTopic(t.Context(), "topic-8"))
	b.Until(`$("topics-note").textContent.startsWith("8 topics")`)
	require.False(t, tab.Eval[bool](b, `$("filter").hidden`))
	tab.Eval[bool](b, `($("filter").value = "", $("filter").dispatchEvent(new Event("input")), true)`)
	b.Until(`document.querySelectorAll("#topics [data-topic]").length === 8 && $("filter").hidden`)
}

// The server takes sums and the rest at different times. So the rest can be new beside the same sums.
func TestTheSameSumsAndAnotherPause(t *testing.T) {
	t.Parallel()
	center, url := serve(t, api.Config{})
	later(t, center, "mail", "1")
	b := tab.Open(t, url+"/", 1440, 1000)
	b.Until(`document.body.dataset.drawn >= 1`)
	tab.Eval[bool](b, `(() => {
		const real = window.fetch;
		let sums;
		window.fetch = async (path, o) => {
			const answer = await real(path, o);
			if (path !== "/v1/stats") return answer;
			const stats = await answer.json();
			stats.sums = sums ||= stats.sums;
			window.asked = (window.asked || 0) + 1;
			return new Response(JSON.stringify(stats));
		};
		return true;
	})()`)
	b.Until(`window.asked >= 2`)
	drawn := tab.Eval[string](b, `document.body.dataset.drawn`)
	b.Press("[data-topic=mail]", "Pause")
	b.Until(`document.querySelector("[data-topic=mail]").textContent.includes("paused")`)
	require.Equal(t, drawn, tab.Eval[string](b, `document.body.dataset.drawn`), "no point for the same sums")
}

// A server's clock can go back. Then there is no rate between the figures before and after.
func TestAClockThatGoesBack(t *testing.T) {
	t.Parallel()
	center, url := serve(t, api.Config{})
	require.NoError(t, center.Handle("mail", func(context.Context, timeout.Task) error { return nil }))
	later(t, center, "mail", "1")
	b := tab.Open(t, url+"/", 1440, 1000)
	b.Until(`document.body.dataset.drawn >= 3 && document.querySelector("[data-topic=mail] td:nth-child(6)").textContent === "0"`)
	tab.Eval[bool](b, `(() => {
		const real = window.fetch;
		window.fetch = async (path, o) => {
			const answer = await real(path, o);
			if (path !== "/v1/stats") return answer;
			const stats = await answer.json();
			stats.sums.at = new Date(Date.parse(stats.sums.at) - 3600e3).toISOString();
			stats.topics[0].all.done += 1000;
			return new Response(JSON.stringify(stats));
		};
		return true;
	})()`)
	b.Until(`document.querySelector("[data-topic=mail] td:nth-child(6)").textContent === "1,000"`)
	require.Equal(t, "0/s", tab.Eval[string](b, `document.querySelector("#tile-done .value").textContent`))
}

// A double click is one click too many for what can't be undone.
func TestADoubleClickOnlyAsks(t *testing.T) {
	t.Parallel()
	center, url := serve(t, api.Config{})
	later(t, center, "mail", "1")
	b := tab.Open(t, url+"/#mail", 1440, 1000)
	b.Until(`document.querySelector("#tasks [data-id]")`)
	require.Equal(t, "Really remove?", tab.Eval[string](b, `(() => {
		const remove = [...document.querySelectorAll("#tasks button")].find((e) => e.textContent === "Remove");
		for (const detail of [1, 2]) remove.dispatchEvent(new MouseEvent("click", { bubbles: true, detail }));
		return remove.textContent;
	})()`))
	require.Equal(t, timeout.Pending, state(t, center, "mail", "1"))
	b.PressSurely("#tasks", "Remove", "Really remove?")
	b.Until(`$("said").textContent === "1 is removed."`)
}

// An id is as long as it may be, and has no place to break.
func TestALongIDStaysOnThePage(t *testing.T) {
	t.Parallel()
	center, url := serve(t, api.Config{})
	id := strings.Repeat("W", 255)
	later(t, center, strings.Repeat("W", 100), id)
	b := tab.Open(t, url+"/#"+strings.Repeat("W", 100), 1440, 1000)
	b.Press("#tasks", "Run now")
	b.Until(`$("said").textContent.endsWith("runs now.")`)
	for _, width := range []int64{1440, 390} {
		b.Do(chromedp.EmulateViewport(width, 900))
		b.Until(fmt.Sprintf(`document.documentElement.scrollWidth <= %d`, width)) // the charts are drawn anew first
	}
}
