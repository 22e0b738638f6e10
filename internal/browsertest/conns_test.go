//go:build browser

package browsertest

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/debughttp"
	"github.com/heartwheel-go/heartwheel/internal/browsertest/tab"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

const token = "a secret of 24 characters"

// A person looks for one connection among 100,000, sorts them, turns the pages, and closes one.
func TestThePageOfConnections(t *testing.T) {
	t.Parallel()
	const many = 100_000
	k, err := keepalive.New(keepalive.Config{Timeout: 10 * time.Minute})
	require.NoError(t, err)
	defer k.Close()
	page, err := debughttp.New(k, debughttp.Config{Name: evil, Label: Label, CloseToken: token})
	require.NoError(t, err)
	defer page.Close()
	crowd, err := Crowd(k, many)
	require.NoError(t, err)
	for i := range 1200 {
		crowd[i].Leave(keepalive.ReasonPeer)
	}
	_, url := serve(t, page)
	url += "?view=connections"
	b := tab.Open(t, url, 1280, 900)
	b.Until(`document.body.dataset.drawn >= 1`)

	const ids = `[...document.querySelectorAll("#rows tbody tr")].map((r) => Number(r.dataset.id))`
	const summary = `$("summary").textContent`
	sorted := func(column, by string) {
		b.Until(`(() => { const v = [...document.querySelectorAll("#rows tbody tr")].map((r) => ` + column + `); return v.length === 100 && v.every((x, i) => i === 0 || (` + by + `)(v[i - 1], x)); })()`)
	}

	b.Run("there are 100,000, the idlest first", func(t *testing.T) {
		b.Until(summary + ` === "1 to 100 of 98,800"`)
		require.Equal(t, "descending", tab.Eval[string](b, `document.querySelector("th[aria-sort]").getAttribute("aria-sort")`))
		require.Equal(t, evil, tab.Eval[string](b, `$("name").textContent`))
		b.Keep("connections.png", "light", 1280, 900)
	})
	b.Run("sorted by address, both ways", func(t *testing.T) {
		b.Click(`a[data-sort=addr]`)
		b.Until(`location.search.includes("sort=addr") && document.querySelector("th[aria-sort=ascending] a").dataset.sort === "addr"`)
		b.Until(`document.activeElement.dataset.sort === "addr"`)
		first := tab.Eval[string](b, `document.querySelector("#rows td.addr").textContent`)
		require.True(t, strings.HasPrefix(first, "10.0.4."), first)
		b.Do(chromedp.KeyEvent(kb.Enter))
		b.Until(`document.querySelector("th[aria-sort=descending] a")?.dataset.sort === "addr"`)
		require.True(t, strings.HasPrefix(tab.Eval[string](b, `document.querySelector("#rows td.addr").textContent`), "10.1."))
	})
	b.Run("sorted by number, page by page, and back", func(t *testing.T) {
		b.Click(`a[data-sort=id]`)
		b.Until(`document.querySelector("th[aria-sort=ascending] a")?.dataset.sort === "id"`)
		sorted(`Number(r.dataset.id)`, `(a, b) => a < b`)
		first := tab.Eval[[]int](b, ids)
		b.Click(`#next`)
		b.Until(summary + ` === "101 to 200 of 98,800"`)
		second := tab.Eval[[]int](b, ids)
		require.Equal(t, first[99]+1, second[0])
		b.Click(`#previous`)
		b.Until(summary + ` === "1 to 100 of 98,800"`)
		require.Equal(t, first, tab.Eval[[]int](b, ids))
		b.Do(chromedp.NavigateBack())
		b.Until(summary + ` === "101 to 200 of 98,800"`)
		b.Click(`#first`)
		b.Until(summary + ` === "1 to 100 of 98,800" && $("first").disabled && $("previous").disabled`)
	})
	search := func(text string) {
		tab.Eval[bool](b, `(($("search").value = ""), $("search").focus(), true)`)
		b.Do(chromedp.SendKeys(chromedp.ID("search"), text))
	}
	b.Run("searched for", func(*testing.T) {
		for text, want := range map[string]string{
			"10.0.7.":       "1 to 100 of 256",
			"10.0.7.0/28":   "1 to 16 of 16",
			"10.0.7.9":      "1 to 1 of 1",
			"#5000":         "1 to 1 of 1",
			"5000":          "1 to 1 of 1",
			"client-0777":   "1 to 10 of 10",
			"10.0.0.9":      "none",
			"nobody's name": "none",
		} {
			search(text)
			b.Until(summary + ` === ` + strconv.Quote(want))
		}
		search("10.0.7.")
		b.Until(summary + ` === "1 to 100 of 256"`)
		b.Keep("connections-search.png", "dark", 1280, 900)
		b.Keep("connections-phone.png", "light", 390, 844)
		b.Keep("connections-phone-dark.png", "dark", 390, 844)
	})
	b.Run("nothing is cut off on a phone", func(*testing.T) {
		b.Do(chromedp.EmulateViewport(360, 740))
		b.Until(`document.documentElement.scrollWidth <= 360`)
		b.Do(chromedp.EmulateViewport(1280, 900))
	})
	b.Run("what is wrong is said", func(*testing.T) {
		search("10.0.0.0/99")
		b.Until(`$("notice-lost").textContent.includes("must be an IP address")`)
		search("#5000")
		b.Until(summary + ` === "1 to 1 of 1" && !$("notice-lost")`)
	})
	b.Run("one is closed, with the token only", func(t *testing.T) {
		b.Click(`#rows button[data-id="5000"]`)
		b.Until(`$("ask").open && $("ask-title").textContent === "Close connection 5000?"`)
		b.Do(chromedp.SendKeys(chromedp.ID("token"), "wrong"))
		b.Keep("connections-close.png", "light", 1280, 900)
		b.Click(`#close`)
		b.Until(`$("ask-error").textContent.includes("CloseToken")`)
		require.True(t, keepalive.Of(crowd[4999]).Touch())
		tab.Eval[bool](b, `(($("token").value = ""), true)`)
		b.Do(chromedp.SendKeys(chromedp.ID("token"), token), chromedp.KeyEvent(kb.Enter))
		b.Until(`!$("ask").open`)
		b.Until(summary + ` === "none"`)
		require.False(t, keepalive.Of(crowd[4999]).Touch())
	})
	b.Run("the closed ones, by reason", func(*testing.T) {
		search("")
		tab.Eval[bool](b, `($("search").dispatchEvent(new Event("input")), true)`)
		b.Click(`#show-closed`)
		b.Until(summary + ` === "1 to 100 of 1,000"`)
		b.Until(`document.querySelector("#rows tbody tr").dataset.id === "5000" && document.querySelector("#rows tbody tr").dataset.reason === "local"`)
		b.Choose("#reason", "peer")
		b.Until(summary + ` === "1 to 100 of 999"`)
		b.Choose("#reason", "local")
		b.Until(summary + ` === "1 to 1 of 1"`)
		b.Choose("#reason", "")
		b.Until(summary + ` === "1 to 100 of 1,000"`)
		b.Keep("connections-closed.png", "dark", 1280, 900)
	})
	b.Run("all that can be clicked has a name", func(t *testing.T) {
		b.Click(`#show-open`)
		b.Until(summary + ` === "1 to 100 of 98,799"`)
		require.Equal(t, "", tab.Eval[string](b, `[...document.querySelectorAll("button, select, input, a, [tabindex]")].filter((e) =>
			e.checkVisibility() && !(e.textContent.trim() || e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || e.closest("label")?.textContent.trim())).map((e) => e.outerHTML).join()`))
		require.Zero(t, tab.Eval[int](b, `document.querySelectorAll("img").length`))
	})
	for _, m := range b.Messages() {
		require.True(t, strings.Contains(m, "400") || strings.Contains(m, "403"), m)
	}
	b.RequireOwnRequests(func(r string) bool { return strings.HasPrefix(r, strings.TrimSuffix(url, "?view=connections")+"?") })
}
