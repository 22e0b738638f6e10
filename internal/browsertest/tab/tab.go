// Package tab is a page in a real browser, for tests: it clicks, chooses and looks as a person would,
// and hears the page's messages and requests.
package tab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Eternal is how long a test waits for what must come.
const Eternal = time.Minute

// Tab is a page in the browser. What fails in its methods fails the test. They are
// for the goroutine of the test.
type Tab struct {
	t   *testing.T // the part of the test that runs
	ctx context.Context

	mu       sync.Mutex
	messages []string // of the console
	requests []string
}

// Open opens a page in the browser, with cookies and a storage of its own, and closes it at the end of the
// test. Without a browser the test fails: otherwise it would pass without looking.
func Open(t *testing.T, url string, width, height int64) *Tab {
	requireBrowser(t)
	var listeners sync.WaitGroup
	t.Cleanup(listeners.Wait)
	ctx, cancel := shared.page(t)
	t.Cleanup(cancel)
	b := &Tab{t: t, ctx: ctx}
	b.Do(chromedp.EmulateViewport(width, height))
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	require.NoError(t, err)
	console, requests := chromedp.Console(ctx), chromedp.Events(ctx, network.RequestWillBeSent)
	listeners.Go(func() {
		for m, err := range console {
			if err != nil {
				return
			}
			b.note(&b.messages, m.String())
		}
	})
	listeners.Go(func() {
		for r, err := range requests {
			if err != nil {
				return
			}
			b.note(&b.requests, r.Request.URL)
		}
	})
	b.Do(chromedp.Navigate(url))
	return b
}

func requireBrowser(t *testing.T) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "headless-shell"} {
		if _, err := exec.LookPath(name); err == nil {
			return
		}
	}
	t.Fatal("there is no browser: install the package chromium (apt-get install chromium)")
}

// Run runs a part of the test as a subtest. If it fails, the test ends: the next part needs the page
// as this one leaves it.
func (b *Tab) Run(name string, part func(t *testing.T)) {
	whole := b.t
	whole.Helper()
	defer func() { b.t = whole }()
	if !whole.Run(name, func(t *testing.T) { b.t = t; part(t) }) {
		whole.FailNow()
	}
}

// Context is for other calls of chromedp than these methods.
func (b *Tab) Context() context.Context { return b.ctx }

// Do does what must succeed.
func (b *Tab) Do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, steps...))
}

// Click clicks an element once it can be seen.
func (b *Tab) Click(css string) { b.t.Helper(); b.Do(chromedp.Click(chromedp.CSS(css))) }

// Press clicks the button of a text within an element, once it is there. It is for pages with buttons
// drawn anew all the time.
func (b *Tab) Press(within, text string) {
	b.t.Helper()
	b.Until(fmt.Sprintf(`(() => { const e = [...document.querySelectorAll(%q)].find((e) => e.textContent === %q); if (e) e.click(); return !!e; })()`, within+" button", text))
}

// PressSurely clicks a button and its question. A question is withdrawn after a while, and asked again then.
func (b *Tab) PressSurely(within, text, question string) {
	b.t.Helper()
	b.Until(fmt.Sprintf(`(() => {
		const find = (text) => [...document.querySelectorAll(%q)].find((e) => e.textContent === text), sure = find(%q);
		(sure || find(%q))?.click();
		return !!sure;
	})()`, within+" button", question, text))
}

// Choose has a select choose, as a person would.
func (b *Tab) Choose(css, value string) {
	b.t.Helper()
	Eval[bool](b, fmt.Sprintf(`(() => { const s = document.querySelector(%q); s.value = %q; s.dispatchEvent(new Event("change", {bubbles: true})); return true; })()`, css, value))
}

// Eval returns what an expression is in the page.
func Eval[T any](b *Tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	require.NoError(b.t, err, expression)
	return v
}

// Until waits until a condition holds in the page.
func (b *Tab) Until(condition string) {
	b.t.Helper()
	holds := assert.Eventually(b.t, func() bool {
		v, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("!!("+condition+")"))
		return err == nil && v
	}, Eternal, 50*time.Millisecond, condition)
	if !holds {
		b.t.Log(Eval[string](b, "[location.href, document.activeElement?.id, document.activeElement?.value, document.body.innerText.slice(0, 2000)].join(`\\n`)"))
		b.t.FailNow()
	}
}

// Dress has the page be seen in a colour scheme and a size.
func (b *Tab) Dress(scheme string, width, height int64) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	require.NoError(b.t, err)
	b.Do(chromedp.EmulateViewport(width, height))
}

// Keep writes a picture in a colour scheme and a size to the folder HEARTWHEEL_PICTURES, if that is set.
func (b *Tab) Keep(name, scheme string, width, height int64) {
	b.t.Helper()
	dir := os.Getenv("HEARTWHEEL_PICTURES")
	if dir == "" {
		return
	}
	b.Dress(scheme, width, height)
	require.NoError(b.t, os.WriteFile(filepath.Join(dir, name), b.Picture(700*time.Millisecond), 0o600))
}

// Picture returns a PNG of the page, after a time for all motion to come to rest.
func (b *Tab) Picture(rest time.Duration) []byte {
	b.t.Helper()
	time.Sleep(rest)
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	require.NoError(b.t, err)
	return picture
}
