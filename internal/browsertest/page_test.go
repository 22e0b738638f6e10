//go:build browser

package browsertest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/debughttp"
	"github.com/heartwheel-go/heartwheel/internal/browsertest/tab"
	"github.com/heartwheel-go/heartwheel/keepalive/ssekeepalive"
)

const (
	conns = 800
	pace  = 0.12
)

// evil is a name that would be an image with a script, if it became markup.
const evil = `gateway <img src=x onerror="document.title='evil'">`

// A person looks at a busy server, clicks through all there is, and then the server
// drains, goes away, and comes back.
func TestThePageUnderLoad(t *testing.T) {
	load, err := Start(conns, pace)
	require.NoError(t, err)
	defer load.Close()
	k := load.Keeper
	streams, err := ssekeepalive.New(ssekeepalive.Config{Interval: 50 * time.Millisecond})
	require.NoError(t, err)
	defer streams.Close()
	page, err := debughttp.New(k, debughttp.Config{Name: evil, Streams: streams})
	require.NoError(t, err)
	defer page.Close()
	server, url := serve(t, page)
	require.Eventually(t, func() bool { return k.Len() > conns*3/4 }, tab.Eternal, 10*time.Millisecond)
	b := tab.Open(t, url, 1440, 1000)
	b.Until(`document.body.dataset.drawn >= 3`)
	own := func(r string) bool { return r == url || r == url+"?format=json" }

	const hand = `document.querySelector("[data-hand-of='0']").getAttribute("transform")`

	b.Run("the wheel is drawn", func(t *testing.T) {
		slots := 0
		for _, level := range k.Stats().Wheel.Levels {
			slots += len(level)
		}
		require.Equal(t, slots, tab.Eval[int](b, `document.querySelectorAll("#wheel .slot").length`))
		b.Until(`document.querySelectorAll("#wheel .slot[d]").length > 30`)
		require.Greater(t, tab.Eval[int](b, `Number($("wheel").dataset.filed)`), conns/2)
		shown, err := strconv.Atoi(strings.ReplaceAll(tab.Eval[string](b, `document.querySelector("#wheel .total").textContent`), ",", ""))
		require.NoError(t, err)
		require.InDelta(t, k.Len(), shown, conns/4)
	})
	b.Run("event streams have a tile", func(t *testing.T) {
		const tile = `document.querySelector("#tiles .tile:nth-child(8)").textContent`
		require.Equal(t, "Event streams00 comments", tab.Eval[string](b, tile))
		events := httptest.NewServer(streams.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})))
		defer events.Close()
		response, err := http.Get(events.URL)
		require.NoError(t, err)
		defer response.Body.Close()
		b.Until(`/^Event streams1[1-9]\d* comments$/.test(` + tile + `)`)
	})
	b.Run("the hand moves", func(*testing.T) {
		was := tab.Eval[string](b, hand)
		taken := tab.Eval[string](b, `$("wheel").dataset.hand`)
		b.Until(hand + ` !== ` + strconv.Quote(was))
		b.Until(`$("wheel").dataset.hand !== ` + strconv.Quote(taken))
	})
	b.Run("what comes from outside is text", func(t *testing.T) {
		require.Equal(t, evil, tab.Eval[string](b, `$("name").textContent`))
		require.Zero(t, tab.Eval[int](b, `document.querySelectorAll("img").length`))
		require.NotEqual(t, "evil", tab.Eval[string](b, `document.title`))
	})
	b.Run("ends come with their reasons", func(t *testing.T) {
		for _, reason := range []string{"idle", "peer", "local", "first_message"} {
			b.Until(`document.querySelector("#legend [data-reason=` + reason + `]")`)
			b.Until(`document.querySelector("#recent [data-reason=` + reason + `]")`)
		}
		b.Until(`document.querySelector("#chart-closed .area.r-idle")`)
		b.Until(`document.querySelectorAll("#idlest tbody tr").length === 20`)
		b.Until(`document.querySelectorAll("#late .bar").length > 0`)
		require.Positive(t, tab.Eval[int](b, `document.querySelectorAll("#late .promise").length`))
		b.Until(`/^127\.10\.\d+\.\d+:\d+$/.test(document.querySelector("#recent td.addr").textContent)`)
	})
	b.Run("the filter shows the reasons that were clicked", func(t *testing.T) {
		shown := `[...new Set([...document.querySelectorAll("#recent tbody tr")].map((r) => r.dataset.reason))].sort().join()`
		b.Click(`#legend [data-reason=idle]`)
		require.Equal(t, "true", tab.Eval[string](b, `document.querySelector("#legend [data-reason=idle]").getAttribute("aria-pressed")`))
		b.Until(shown + ` === "idle"`)
		require.Contains(t, tab.Eval[string](b, `$("recent-note").textContent`), "idle:")
		b.Click(`#legend [data-reason=peer]`)
		b.Until(shown + ` === "idle,peer"`)
		b.Click(`#legend [data-reason=idle]`)
		b.Until(shown + ` === "peer"`)
		b.Click(`#legend [data-reason=peer]`)
		b.Until(`(` + shown + `).includes("idle")`)
	})
	b.Run("pause", func(t *testing.T) {
		b.Click("#pause")
		b.Until(`$("live").textContent === "paused"`)
		time.Sleep(300 * time.Millisecond) // an answer may have been on its way
		was, drawn := tab.Eval[string](b, hand), tab.Eval[string](b, `document.body.dataset.drawn`)
		require.Zero(t, asked(b, 2*time.Second))
		require.Equal(t, was, tab.Eval[string](b, hand))
		require.Equal(t, drawn, tab.Eval[string](b, `document.body.dataset.drawn`))
		b.Click("#pause")
		b.Until(`$("live").textContent === "live"`)
		b.Until(hand + ` !== ` + strconv.Quote(was))
		b.Until(`document.body.dataset.drawn !== ` + strconv.Quote(drawn))
		b.Do(chromedp.KeyEvent("p"))
		b.Until(`$("live").textContent === "paused"`)
		b.Do(chromedp.KeyEvent("p"))
		b.Until(`$("live").textContent === "live"`)
	})
	b.Run("a page that nobody sees asks for nothing", func(t *testing.T) {
		see := func(seen bool) {
			tab.Eval[bool](b, fmt.Sprintf(`Object.defineProperty(document, "hidden", {value: %v, configurable: true}) && document.dispatchEvent(new Event("visibilitychange"))`, !seen))
		}
		see(false)
		time.Sleep(300 * time.Millisecond)
		was := tab.Eval[string](b, hand)
		require.Zero(t, asked(b, 2*time.Second))
		require.Equal(t, was, tab.Eval[string](b, hand))
		see(true)
		b.Until(hand + ` !== ` + strconv.Quote(was))
		require.Positive(t, asked(b, 4*time.Second))
	})
	b.Run("interval", func(t *testing.T) {
		b.Choose("#interval", "10000")
		time.Sleep(300 * time.Millisecond)
		require.LessOrEqual(t, asked(b, 3*time.Second), 1)
		b.Choose("#interval", "500")
		require.GreaterOrEqual(t, asked(b, 4*time.Second), 4)
	})
	b.Run("theme", func(t *testing.T) {
		const background = `getComputedStyle(document.documentElement).backgroundColor`
		b.Choose("#theme", "light")
		light := tab.Eval[string](b, background)
		b.Choose("#theme", "dark")
		require.NotEqual(t, light, tab.Eval[string](b, background))
		b.Do(chromedp.Reload())
		b.Until(`document.body.dataset.drawn >= 2`)
		require.NotEqual(t, light, tab.Eval[string](b, background), "it outlives the page")
		require.Equal(t, "500", tab.Eval[string](b, `$("interval").value`), "so does the interval")
		b.Choose("#theme", "")
		require.False(t, tab.Eval[bool](b, `"theme" in document.documentElement.dataset`))
	})
	b.Run("a slot that is pointed at says what is in it", func(t *testing.T) {
		b.Do(chromedp.ScrollIntoView(chromedp.ID("wheel")))
		at := tab.Eval[[]float64](b, `(() => { const r = $("wheel").getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height * (280 - 210) / 560]; })()`)
		b.Do(chromedp.MouseEvent("mouseMoved", at[0]+2, at[1]))
		b.Until(`/^Outer ring, slot \d+: [\d,]+ timers?\. The hand comes in /.test($("readout").textContent)`)
		b.Do(chromedp.MouseEvent("mouseMoved", 1, 1))
		b.Until(`$("readout").textContent.startsWith("Point at")`)
		b.Do(chromedp.Focus(chromedp.ID("wheel")), chromedp.KeyEvent(kb.ArrowRight))
		b.Until(`/^Outer ring, slot \d+:/.test($("readout").textContent)`)
		slot := func() (n int) {
			_, err := fmt.Sscanf(tab.Eval[string](b, `$("readout").textContent.split("slot ")[1]`), "%d", &n)
			require.NoError(t, err)
			return n
		}
		was, all := slot(), len(k.Stats().Wheel.Levels[0])
		b.Do(chromedp.KeyEvent(kb.ArrowRight))
		require.Equal(t, (was+1)%all, slot())
		b.Do(chromedp.KeyEvent(kb.ArrowLeft))
		require.Equal(t, was, slot())
		b.Do(chromedp.KeyEvent(kb.ArrowDown))
		b.Until(`/^Middle ring, slot \d+: .* files them further out/.test($("readout").textContent)`)
		b.Do(chromedp.KeyEvent(kb.Escape))
		b.Until(`$("readout").textContent.startsWith("Point at")`)
	})
	b.Run("a moment that is pointed at says what was then", func(t *testing.T) {
		b.Do(chromedp.ScrollIntoView(chromedp.ID("chart-closed")))
		at := tab.Eval[[]float64](b, `(() => { const r = $("chart-closed").getBoundingClientRect(); return [r.right - 10, r.top + 60]; })()`)
		b.Do(chromedp.MouseEvent("mouseMoved", at[0], at[1]))
		b.Until(`!$("tip").hidden && /^\d\d:\d\d:\d\d/.test($("tip").textContent)`)
		require.Equal(t, 4, tab.Eval[int](b, `document.querySelectorAll(".chart .cross").length`), "all charts show it")
		b.Do(chromedp.MouseEvent("mouseMoved", 1, 1))
		b.Until(`$("tip").hidden`)
		b.Do(chromedp.Focus(chromedp.CSS("#chart-open svg")), chromedp.KeyEvent(kb.ArrowLeft))
		b.Until(`!$("tip").hidden && $("tip").textContent.includes("connections")`)
		tab.Eval[bool](b, `document.activeElement.blur() || true`)
		b.Until(`$("tip").hidden`)
	})
	b.Run("no text is cut off on a phone", func(*testing.T) {
		b.Do(chromedp.EmulateViewport(360, 740))
		b.Until(`document.documentElement.scrollWidth <= 360`)
		b.Do(chromedp.EmulateViewport(1440, 1000))
	})
	b.Run("all that can be clicked has a name", func(t *testing.T) {
		require.Equal(t, "", tab.Eval[string](b, `[...document.querySelectorAll("button, select, a, [tabindex]")].filter((e) =>
			e.checkVisibility() && !(e.textContent.trim() || e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || e.closest("label"))).map((e) => e.outerHTML).join()`))
	})
	b.Run("what the config says is shown at once", func(t *testing.T) {
		require.True(t, tab.Eval[bool](b, `$("advice-card").hidden`))
		cfg := Probing(conns, pace)
		cfg.Advise, cfg.Closing.DryRun = true, true
		require.NoError(t, k.Update(cfg))
		b.Until(`document.querySelector("#notice-dry")`)
		b.Until(`!$("advice-card").hidden && document.querySelectorAll("#advice .bar").length > 0`)
		b.Until(`document.querySelectorAll("#trips .bar").length > 0`)
		b.Until(`[...document.querySelectorAll("#settings dt")].some((e) => e.textContent === "dry run")`)
		require.NoError(t, k.Update(Config(conns, pace)))
		b.Until(`!document.querySelector("#notice-dry") && $("advice-card").hidden`)
	})
	b.Run("a drain is announced", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		drained := make(chan error, 1)
		go func() { drained <- k.Drain(ctx, time.Minute) }()
		b.Until(`document.querySelector("#notice-draining") && /\d connections? left/.test($("notice-draining").textContent)`)
		cancel()
		require.ErrorIs(t, <-drained, context.Canceled)
		k.Resume()
		b.Until(`!document.querySelector("#notice-draining")`)
	})
	require.Empty(t, b.Messages(), "of the console")
	b.RequireOwnRequests(own)

	b.Run("a server that goes away comes back", func(t *testing.T) {
		require.NoError(t, page.Close())
		b.Until(`$("live").textContent === "lost" && $("notice-lost").textContent.includes("debughttp: closed")`)
		again, err := debughttp.New(k, debughttp.Config{Name: "another", HideAddrs: true})
		require.NoError(t, err)
		defer again.Close()
		server.set(again)
		b.Until(`$("live").textContent === "live" && $("name").textContent === "another"`)
		b.Until(`!document.querySelector("#notice-lost")`)
		b.Until(`/^peer-[0-9a-f]{10}$/.test(document.querySelector("#idlest td.addr").firstChild.textContent)`)
		b.Until(`!document.body.textContent.includes("127.10.")`)
	})
	for _, m := range b.Messages() {
		require.Contains(t, m, "503")
	}
	b.RequireOwnRequests(own)
}

// asked returns how often the page asks within a time.
func asked(b *tab.Tab, d time.Duration) int {
	before := len(b.Requests())
	time.Sleep(d)
	return len(b.Requests()) - before
}

// No text may become markup, whatever the script does.
func TestThePolicyForbidsMarkup(t *testing.T) {
	load, err := Start(10, pace)
	require.NoError(t, err)
	defer load.Close()
	page, err := debughttp.New(load.Keeper, debughttp.Config{})
	require.NoError(t, err)
	defer page.Close()
	_, url := serve(t, page)
	b := tab.Open(t, url, 1000, 800)
	b.Until(`document.body.dataset.drawn >= 1`)
	for _, bad := range []string{
		`$("name").innerHTML = "<b>x</b>"`,
		`document.write("x")`,
		`document.body.append(Object.assign(document.createElement("script"), {text: "alert(1)"}))`,
	} {
		_, err := chromedp.Run(b.Context(), chromedp.Evaluate[string](`(() => { `+bad+`; return "done"; })()`))
		require.ErrorContains(t, err, "Trusted", bad)
	}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("asked somebody else") }))
	defer elsewhere.Close()
	for _, bad := range []string{
		`new Promise((yes, no) => { const i = new Image(); i.onload = () => yes("done"); i.onerror = () => no("shut"); i.src = "` + elsewhere.URL + `"; })`,
		`fetch("` + elsewhere.URL + `", {mode: "no-cors"}).then(() => "done")`,
	} {
		_, err := chromedp.Run(b.Context(), chromedp.Evaluate[string](bad, chromedp.EvalAwaitPromise))
		require.Error(t, err, bad)
	}
}
