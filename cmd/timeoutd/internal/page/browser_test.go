//go:build browser

package page

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

const eternal = 30 * time.Second // how long a test waits for what must come

// tab is a page in a browser.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	messages []string // of the console
	requests []string
}

// openTab starts a browser, and opens a page in it.
func openTab(t *testing.T, url string, width, height int64) *tab {
	requireBrowser(t)
	options := chromedp.DefaultExecAllocatorOptions[:]
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // which root has none of
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	b.do(chromedp.EmulateViewport(width, height))
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	require.NoError(t, err)
	console, requests := chromedp.Console(ctx), chromedp.Events(ctx, network.RequestWillBeSent)
	go func() {
		for m, err := range console {
			if err != nil {
				return
			}
			b.note(&b.messages, m.String())
		}
	}()
	go func() {
		for r, err := range requests {
			if err != nil {
				return
			}
			b.note(&b.requests, r.Request.URL)
		}
	}()
	b.do(chromedp.Navigate(url))
	return b
}

// requireBrowser fails where there is none: a test that looks at nothing has seen nothing.
func requireBrowser(t *testing.T) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "headless-shell"} {
		if _, err := exec.LookPath(name); err == nil {
			return
		}
	}
	t.Fatal("there is no browser: install the package chromium (apt-get install chromium)")
}

func (b *tab) note(to *[]string, what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*to = append(*to, what)
}

func (b *tab) noted(what *[]string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), *what...)
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, steps...))
}

func (b *tab) click(css string) { b.t.Helper(); b.do(chromedp.Click(chromedp.CSS(css))) }

// press clicks the button of a text within an element, as the page has it at that moment.
func (b *tab) press(within, text string) {
	b.t.Helper()
	b.until(fmt.Sprintf(`(() => { const e = [...document.querySelectorAll(%q)].find((e) => e.textContent === %q); if (e) e.click(); return !!e; })()`, within+" button", text))
}

// eval returns what an expression is in the page.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	require.NoError(b.t, err, expression)
	return v
}

// until waits until a condition holds in the page.
func (b *tab) until(condition string) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		v, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("!!("+condition+")"))
		return err == nil && v
	}, eternal, 50*time.Millisecond, condition)
}

func (b *tab) dress(theme string) {
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}},
	})
	require.NoError(b.t, err)
}

// keep keeps a picture, where somebody has asked for it.
func (b *tab) keep(name, theme string, width, height int64) {
	dir := os.Getenv("HEARTWHEEL_PICTURES")
	if dir == "" {
		return
	}
	b.dress(theme)
	b.do(chromedp.EmulateViewport(width, height))
	time.Sleep(700 * time.Millisecond) // for the transitions
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(dir+"/"+name, picture, 0o600))
}

// requireQuiet is that the console has nothing to say, and nobody else was asked.
func (b *tab) requireQuiet(url string) {
	b.t.Helper()
	for _, m := range b.noted(&b.messages) {
		require.NotContains(b.t, strings.ToLower(m), "error", m)
		require.NotContains(b.t, strings.ToLower(m), "refused", m)
	}
	requests := b.noted(&b.requests)
	require.NotEmpty(b.t, requests)
	for _, r := range requests {
		require.True(b.t, strings.HasPrefix(r, url+"/") || strings.HasPrefix(r, "data:image/svg+xml,"), r)
	}
}
