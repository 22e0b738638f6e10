//go:build browser

package browsertest

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/debughttp"
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
	page, err := debughttp.New(k, debughttp.Config{Name: evil})
	require.NoError(t, err)
	defer page.Close()
	server, url := serve(t, page)
	require.Eventually(t, func() bool { return k.Len() > conns*3/4 }, eternal, 10*time.Millisecond)
	b := openTab(t, url, 1440, 1000)
	b.until(`document.body.dataset.drawn >= 3`)

	run := func(name string, f func(t *testing.T)) {
		t.Helper()
		if !t.Run(name, func(t *testing.T) {
			before := b.t
			b.t = t
			defer func() { b.t = before }()
			f(t)
		}) {
			t.FailNow()
		}
	}
	const hand = `document.querySelector("[data-hand-of='0']").getAttribute("transform")`

	run("the wheel is drawn", func(t *testing.T) {
		require.Equal(t, 640, eval[int](b, `document.querySelectorAll("#wheel .slot").length`))
		b.until(`document.querySelectorAll("#wheel .slot[d]").length > 30`)
		require.Greater(t, eval[int](b, `Number($("wheel").dataset.filed)`), conns/2)
		shown, err := strconv.Atoi(strings.ReplaceAll(eval[string](b, `document.querySelector("#wheel .total").textContent`), ",", ""))
		require.NoError(t, err)
		require.InDelta(t, k.Len(), shown, conns/4)
	})
	run("the hand moves", func(*testing.T) {
		was := eval[string](b, hand)
		taken := eval[string](b, `$("wheel").dataset.hand`)
		b.until(hand + ` !== ` + strconv.Quote(was))
		b.until(`$("wheel").dataset.hand !== ` + strconv.Quote(taken))
	})
	run("what comes from outside is text", func(t *testing.T) {
		require.Equal(t, evil, eval[string](b, `$("name").textContent`))
		require.Zero(t, eval[int](b, `document.querySelectorAll("img").length`))
		require.NotEqual(t, "evil", eval[string](b, `document.title`))
	})
	run("ends come with their reasons", func(t *testing.T) {
		for _, reason := range []string{"idle", "peer", "local", "first_message"} {
			b.until(`document.querySelector("#legend [data-reason=` + reason + `]")`)
			b.until(`document.querySelector("#recent [data-reason=` + reason + `]")`)
		}
		b.until(`document.querySelector("#chart-closed .area.r-idle")`)
		b.until(`document.querySelectorAll("#idlest tbody tr").length === 20`)
		b.until(`document.querySelectorAll("#late .bar").length > 0`)
		require.Positive(t, eval[int](b, `document.querySelectorAll("#late .promise").length`))
		b.until(`/^127\.10\.\d+\.\d+:\d+$/.test(document.querySelector("#recent td.addr").textContent)`)
	})
	run("the filter shows the reasons that were clicked", func(t *testing.T) {
		shown := `[...new Set([...document.querySelectorAll("#recent tbody tr")].map((r) => r.dataset.reason))].sort().join()`
		b.click(`#legend [data-reason=idle]`)
		require.Equal(t, "true", eval[string](b, `document.querySelector("#legend [data-reason=idle]").getAttribute("aria-pressed")`))
		b.until(shown + ` === "idle"`)
		require.Contains(t, eval[string](b, `$("recent-note").textContent`), "idle:")
		b.click(`#legend [data-reason=peer]`)
		b.until(shown + ` === "idle,peer"`)
		b.click(`#legend [data-reason=idle]`)
		b.until(shown + ` === "peer"`)
		b.click(`#legend [data-reason=peer]`)
		b.until(`(` + shown + `).includes("idle")`)
	})
	run("pause", func(t *testing.T) {
		b.click("#pause")
		b.until(`$("live").textContent === "paused"`)
		time.Sleep(300 * time.Millisecond) // an answer may have been on its way
		was, drawn := eval[string](b, hand), eval[string](b, `document.body.dataset.drawn`)
		require.Zero(t, asked(b, 2*time.Second))
		require.Equal(t, was, eval[string](b, hand))
		require.Equal(t, drawn, eval[string](b, `document.body.dataset.drawn`))
		b.click("#pause")
		b.until(`$("live").textContent === "live"`)
		b.until(hand + ` !== ` + strconv.Quote(was))
		b.until(`document.body.dataset.drawn !== ` + strconv.Quote(drawn))
		b.do(chromedp.KeyEvent("p"))
		b.until(`$("live").textContent === "paused"`)
		b.do(chromedp.KeyEvent("p"))
		b.until(`$("live").textContent === "live"`)
	})
	run("a page that nobody sees asks for nothing", func(t *testing.T) {
		see := func(seen bool) {
			eval[bool](b, fmt.Sprintf(`Object.defineProperty(document, "hidden", {value: %v, configurable: true}) && document.dispatchEvent(new Event("visibilitychange"))`, !seen))
		}
		see(false)
		time.Sleep(300 * time.Millisecond)
		was := eval[string](b, hand)
		require.Zero(t, asked(b, 2*time.Second))
		require.Equal(t, was, eval[string](b, hand))
		see(true)
		b.until(hand + ` !== ` + strconv.Quote(was))
		require.Positive(t, asked(b, 4*time.Second))
	})
	run("interval", func(t *testing.T) {
		b.choose("#interval", "10000")
		time.Sleep(300 * time.Millisecond)
		require.LessOrEqual(t, asked(b, 3*time.Second), 1)
		b.choose("#interval", "500")
		require.GreaterOrEqual(t, asked(b, 4*time.Second), 4)
	})
	run("theme", func(t *testing.T) {
		const background = `getComputedStyle(document.documentElement).backgroundColor`
		b.choose("#theme", "light")
		light := eval[string](b, background)
		b.choose("#theme", "dark")
		require.NotEqual(t, light, eval[string](b, background))
		b.do(chromedp.Reload())
		b.until(`document.body.dataset.drawn >= 2`)
		require.NotEqual(t, light, eval[string](b, background), "it outlives the page")
		require.Equal(t, "500", eval[string](b, `$("interval").value`), "so does the interval")
		b.choose("#theme", "")
		require.False(t, eval[bool](b, `"theme" in document.documentElement.dataset`))
	})
	run("a slot that is pointed at says what is in it", func(t *testing.T) {
		b.do(chromedp.ScrollIntoView(chromedp.ID("wheel")))
		at := eval[[]float64](b, `(() => { const r = $("wheel").getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height * (280 - 210) / 560]; })()`)
		b.do(chromedp.MouseEvent("mouseMoved", at[0]+2, at[1]))
		b.until(`/^Outer ring, slot \d+: [\d,]+ timers?\. The hand comes in /.test($("readout").textContent)`)
		b.do(chromedp.MouseEvent("mouseMoved", 1, 1))
		b.until(`$("readout").textContent.startsWith("Point at")`)
		b.do(chromedp.Focus(chromedp.ID("wheel")), chromedp.KeyEvent(kb.ArrowRight))
		b.until(`/^Outer ring, slot \d+:/.test($("readout").textContent)`)
		slot := func() (n int) {
			_, err := fmt.Sscanf(eval[string](b, `$("readout").textContent.split("slot ")[1]`), "%d", &n)
			require.NoError(t, err)
			return n
		}
		was := slot()
		b.do(chromedp.KeyEvent(kb.ArrowRight))
		require.Equal(t, (was+1)%512, slot())
		b.do(chromedp.KeyEvent(kb.ArrowLeft))
		require.Equal(t, was, slot())
		b.do(chromedp.KeyEvent(kb.ArrowDown))
		b.until(`/^Middle ring, slot \d+: .* files them further out/.test($("readout").textContent)`)
		b.do(chromedp.KeyEvent(kb.Escape))
		b.until(`$("readout").textContent.startsWith("Point at")`)
	})
	run("a moment that is pointed at says what was then", func(t *testing.T) {
		b.do(chromedp.ScrollIntoView(chromedp.ID("chart-closed")))
		at := eval[[]float64](b, `(() => { const r = $("chart-closed").getBoundingClientRect(); return [r.right - 10, r.top + 60]; })()`)
		b.do(chromedp.MouseEvent("mouseMoved", at[0], at[1]))
		b.until(`!$("tip").hidden && /^\d\d:\d\d:\d\d/.test($("tip").textContent)`)
		require.Equal(t, 4, eval[int](b, `document.querySelectorAll(".chart .cross").length`), "all charts show it")
		b.do(chromedp.MouseEvent("mouseMoved", 1, 1))
		b.until(`$("tip").hidden`)
		b.do(chromedp.Focus(chromedp.CSS("#chart-open svg")), chromedp.KeyEvent(kb.ArrowLeft))
		b.until(`!$("tip").hidden && $("tip").textContent.includes("connections")`)
		eval[bool](b, `document.activeElement.blur() || true`)
		b.until(`$("tip").hidden`)
	})
	run("no text is cut off on a phone", func(*testing.T) {
		b.do(chromedp.EmulateViewport(360, 740))
		b.until(`document.documentElement.scrollWidth <= 360`)
		b.do(chromedp.EmulateViewport(1440, 1000))
	})
	run("all that can be clicked has a name", func(t *testing.T) {
		require.Equal(t, "", eval[string](b, `[...document.querySelectorAll("button, select, a, [tabindex]")].filter((e) =>
			e.checkVisibility() && !(e.textContent.trim() || e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || e.closest("label"))).map((e) => e.outerHTML).join()`))
	})
	run("what the config says is shown at once", func(t *testing.T) {
		require.True(t, eval[bool](b, `$("advice-card").hidden`))
		cfg := Probing(conns, pace)
		cfg.Advise, cfg.DryRun = true, true
		require.NoError(t, k.Update(cfg))
		b.until(`document.querySelector("#notice-dry")`)
		b.until(`!$("advice-card").hidden && document.querySelectorAll("#advice .bar").length > 0`)
		b.until(`document.querySelectorAll("#trips .bar").length > 0`)
		b.until(`[...document.querySelectorAll("#settings dt")].some((e) => e.textContent === "dry run")`)
		require.NoError(t, k.Update(Config(conns, pace)))
		b.until(`!document.querySelector("#notice-dry") && $("advice-card").hidden`)
	})
	run("a drain is announced", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		drained := make(chan error, 1)
		go func() { drained <- k.Drain(ctx, time.Minute) }()
		b.until(`document.querySelector("#notice-draining") && /\d connections? left/.test($("notice-draining").textContent)`)
		cancel()
		require.ErrorIs(t, <-drained, context.Canceled)
		k.Resume()
		b.until(`!document.querySelector("#notice-draining")`)
	})
	require.Empty(t, b.noted(&b.messages), "of the console")
	b.requireOwnRequests(url)

	run("a server that goes away comes back", func(t *testing.T) {
		require.NoError(t, page.Close())
		b.until(`$("live").textContent === "lost" && $("notice-lost").textContent.includes("debughttp: closed")`)
		again, err := debughttp.New(k, debughttp.Config{Name: "another", HideAddrs: true})
		require.NoError(t, err)
		defer again.Close()
		server.set(again)
		b.until(`$("live").textContent === "live" && $("name").textContent === "another"`)
		b.until(`!document.querySelector("#notice-lost")`)
		b.until(`/^peer-[0-9a-f]{10}$/.test(document.querySelector("#idlest td.addr").firstChild.textContent)`)
		b.until(`!document.body.textContent.includes("127.10.")`)
	})
	for _, m := range b.noted(&b.messages) {
		require.Contains(t, m, "503")
	}
	b.requireOwnRequests(url)
}

// asked returns how often the page asks within a time.
func asked(b *tab, d time.Duration) int {
	before := len(b.noted(&b.requests))
	time.Sleep(d)
	return len(b.noted(&b.requests)) - before
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
	b := openTab(t, url, 1000, 800)
	b.until(`document.body.dataset.drawn >= 1`)
	for _, bad := range []string{
		`$("name").innerHTML = "<b>x</b>"`,
		`document.write("x")`,
		`document.body.append(Object.assign(document.createElement("script"), {text: "alert(1)"}))`,
	} {
		_, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`(() => { `+bad+`; return "done"; })()`))
		require.ErrorContains(t, err, "Trusted", bad)
	}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("asked somebody else") }))
	defer elsewhere.Close()
	for _, bad := range []string{
		`new Promise((yes, no) => { const i = new Image(); i.onload = () => yes("done"); i.onerror = () => no("shut"); i.src = "` + elsewhere.URL + `"; })`,
		`fetch("` + elsewhere.URL + `", {mode: "no-cors"}).then(() => "done")`,
	} {
		_, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](bad, chromedp.EvalAwaitPromise))
		require.Error(t, err, bad)
	}
}

var screenshots = flag.String("screenshots", "", "`directory` in which to keep screenshots of the page")

// The pictures of docs/debug-page.md, at the pace of the world, which takes two minutes.
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("-screenshots does not say where to keep them")
	}
	const conns = 2400
	load, err := Start(conns, 1)
	require.NoError(t, err)
	defer load.Close()
	page, err := debughttp.New(load.Keeper, debughttp.Config{Name: "gateway"})
	require.NoError(t, err)
	defer page.Close()
	_, url := serve(t, page)
	time.Sleep(10 * time.Second)
	b := openTab(t, url, 1440, 1060)
	time.Sleep(35 * time.Second)
	require.NoError(t, load.Keeper.Update(Probing(conns, 1)))
	time.Sleep(75 * time.Second)
	b.keep("debug-page.png", "dark", 1440, 1060, 0)
	b.keep("debug-page-light.png", "light", 1440, 1060, 1000)
	b.keep("debug-page-phone.png", "dark", 390, 1180, 0)
}

// keep keeps a picture. It must be less than 300 KB.
func (b *tab) keep(name, scheme string, width, height int64, scroll int) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	require.NoError(b.t, err)
	b.do(chromedp.EmulateViewport(width, height))
	eval[bool](b, fmt.Sprintf(`(scrollTo(0, %d), true)`, scroll))
	time.Sleep(2 * time.Second)
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	require.NoError(b.t, err)
	pixels, err := png.Decode(bytes.NewReader(picture))
	require.NoError(b.t, err)
	var small bytes.Buffer
	require.NoError(b.t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, pixels))
	require.NoError(b.t, errors.Join(os.MkdirAll(*screenshots, 0o755), os.WriteFile(filepath.Join(*screenshots, name), small.Bytes(), 0o644)))
	require.Less(b.t, small.Len(), 300_000, name)
}
