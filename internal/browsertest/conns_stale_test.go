//go:build browser

package browsertest

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/debughttp"
	"github.com/heartwheel-go/heartwheel/internal/browsertest/tab"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

// few has a page of three connections open. The label of the first one is a MAC address.
func few(t *testing.T) *tab.Tab {
	k, err := keepalive.New(keepalive.Config{Timeout: 10 * time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { k.Close() })
	crowd, err := Crowd(k, 3)
	require.NoError(t, err)
	crowd[0].name = "aa:bb:cc:dd:ee:ff"
	page, err := debughttp.New(k, debughttp.Config{Label: Label, CloseToken: token})
	require.NoError(t, err)
	t.Cleanup(func() { page.Close() })
	_, url := serve(t, page)
	b := tab.Open(t, url+"?view=connections", 1280, 900)
	b.Until(all)
	return b
}

const (
	all = `$("summary").textContent === "1 to 3 of 3"`
	one = `$("summary").textContent === "1 to 1 of 1"`
)

func TestALabelCanLookLikeAnAddress(t *testing.T) {
	t.Parallel()
	b := few(t)
	for _, text := range []string{"AA:BB:CC:DD:EE:FF", "dd:ee"} {
		b.Do(chromedp.SendKeys(chromedp.ID("search"), text))
		b.Until(one + ` && document.querySelector("#rows td.label").textContent === "aa:bb:cc:dd:ee:ff"`)
		tab.Eval[bool](b, `($("search").value = "", $("tools").requestSubmit(), true)`)
		b.Until(all)
	}
	for text, params := range map[string]string{
		"10.0.0.1": "addr", "10.0.0.1:20001": "addr", "[::1]:7": "addr", "::1": "addr", "2001:db8::/32": "addr", "1:2:3:4:5:6:7:8": "addr", "fe.d": "label", "a:b": "label",
		"10.0.0.1/8": "addr", "[fe80::1%eth0]:7": "addr", "fe80::1%br-lan": "addr", "1.2.3.4.5": "label", "1.2.3.4:5:6": "label", "::%": "label",
	} {
		tab.Eval[bool](b, `($("search").value = "`+text+`", $("tools").requestSubmit(), true)`)
		require.Equal(t, text, tab.Eval[string](b, `new URLSearchParams(location.search).get("`+params+`") || ""`))
	}
}

// The way back leads to what was searched then, also with the cursor in the field.
func TestTheSearchOfAnEarlierPage(t *testing.T) {
	t.Parallel()
	b := few(t)
	b.Click(`a[data-sort=id]`)
	b.Until(`document.querySelector("th[aria-sort=ascending] a")?.dataset.sort === "id"`)
	b.Do(chromedp.SendKeys(chromedp.ID("search"), "#1"))
	b.Until(one + ` && document.activeElement === $("search")`)
	b.Do(chromedp.NavigateBack())
	b.Until(all)
	require.Empty(t, tab.Eval[string](b, `$("search").value`))
}

// What a server says about one connection stands in no question about another one, and does not answer it.
func TestTheQuestionIsAboutOneConnection(t *testing.T) {
	t.Parallel()
	b := few(t)
	tab.Eval[bool](b, `(() => {
		const real = window.fetch;
		window.fetch = (path, o) => o.method !== "POST" ? real(path, o) : new Promise((answer) => {
			window.answer = (status) => { answer(new Response("no", { status })); setTimeout(() => { window.read = true; }, 100); };
		});
		return true;
	})()`)
	ask := func(id string) { // at once: the rows are drawn anew now and then
		tab.Eval[bool](b, `(document.querySelector("#rows button[data-id='`+id+`']").click(), true)`)
	}
	for _, status := range []string{"200", "503"} {
		ask("1")
		tab.Eval[bool](b, `($("token").value = "x", window.answer = null, window.read = false, true)`)
		b.Click(`#close`)
		b.Until(`window.answer`)
		b.Click(`#keep`)
		ask("2")
		require.False(t, tab.Eval[bool](b, `$("close").disabled`), "it waits for nobody")
		tab.Eval[bool](b, `(answer(`+status+`), true)`)
		b.Until(`window.read`)
		require.True(t, tab.Eval[bool](b, `$("ask").open && $("ask-title").textContent === "Close connection 2?" && $("ask-error").textContent === ""`), status)
		b.Click(`#keep`)
	}
}

// The rows and their head are drawn anew every two seconds. The focus stays where it is meanwhile.
func TestTheFocusStaysOnAHead(t *testing.T) {
	t.Parallel()
	b := few(t)
	tab.Eval[bool](b, `(document.querySelector("a[data-sort=addr]").focus(), window.then = Number(document.body.dataset.drawn), true)`)
	b.Until(`Number(document.body.dataset.drawn) > then + 1`)
	require.Equal(t, "addr", tab.Eval[string](b, `document.activeElement.dataset.sort || ""`))

	b.Run("unless somebody has gone elsewhere", func(t *testing.T) {
		tab.Eval[bool](b, `(() => {
			const real = window.fetch;
			window.fetch = async (path, o) => { await new Promise((go) => { window.go = go; }); return real(path, o); };
			document.querySelector("a[data-sort=id]").click();
			$("search").focus();
			window.fetch = real;
			go();
			return true;
		})()`)
		b.Until(`document.querySelector("th[aria-sort=ascending] a")?.dataset.sort === "id"`)
		tab.Eval[bool](b, `(window.then = Number(document.body.dataset.drawn), true)`)
		b.Until(`Number(document.body.dataset.drawn) > then`)
		require.Equal(t, "search", tab.Eval[string](b, `document.activeElement.id`))
	})
}
