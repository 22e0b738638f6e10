//go:build browser

package browsertest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

// choose has a select choose, as a person would.
func (b *tab) choose(css, value string) {
	b.t.Helper()
	eval[bool](b, fmt.Sprintf(`(() => { const s = document.querySelector(%q); s.value = %q; s.dispatchEvent(new Event("change", {bubbles: true})); return true; })()`, css, value))
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

// swapped is a handler that can be another one later.
type swapped struct{ now atomic.Pointer[http.Handler] }

func (s *swapped) set(h http.Handler) { s.now.Store(&h) }

func (s *swapped) ServeHTTP(w http.ResponseWriter, r *http.Request) { (*s.now.Load()).ServeHTTP(w, r) }

// serve serves a handler that can be swapped, on loopback.
func serve(t *testing.T, h http.Handler) (*swapped, string) {
	var handler swapped
	handler.set(h)
	s := httptest.NewServer(&handler)
	t.Cleanup(s.Close)
	return &handler, s.URL + "/debug/wheel"
}

// requireOwnRequests is that the page has asked nobody but where it came from.
func (b *tab) requireOwnRequests(url string) {
	b.t.Helper()
	requests := b.noted(&b.requests)
	require.NotEmpty(b.t, requests)
	for _, r := range requests {
		require.True(b.t, r == url || r == url+"?format=json" || strings.HasPrefix(r, "data:image/svg+xml,"), r)
	}
}
