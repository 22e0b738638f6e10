package tab

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

// browser is a Chromium for all who use it at the same time.
type browser struct {
	mu    sync.Mutex
	users int
	ctx   context.Context // of the process, which has ended if this is done; nil before the first page
	end   func()
}

var shared browser

// Main runs the tests of a package in one browser, for TestMain: pages wait for the most part, so three tests
// run at a time. Without it, each test that opens a page would start a browser.
func Main(m *testing.M) {
	testmain.Parallel(3)
	shared.enter()
	code := m.Run()
	shared.leave()
	os.Exit(code)
}

func (b *browser) enter() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.users++
}

// leave ends the process after its last user.
func (b *browser) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.users--; b.users == 0 && b.ctx != nil {
		b.end()
		b.ctx = nil
	}
}

// page returns the context of a new page, until the caller cancels it. If the process has crashed, which the
// test of that time has noticed, there is a new one.
func (b *browser) page(t *testing.T) (context.Context, func()) {
	b.enter()
	t.Cleanup(b.leave)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx != nil && b.ctx.Err() != nil {
		t.Log("the browser of the tests before has ended:", context.Cause(b.ctx))
		b.end()
		b.ctx = nil
	}
	if b.ctx == nil {
		b.ctx, b.end = start(t)
	}
	return chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
}

// start starts the process. It ends with this one, if not before.
func start(t *testing.T) (context.Context, func()) {
	options := chromedp.DefaultExecAllocatorOptions[:]
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // which root has none of
	}
	allocator, free := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	end := func() { cancel(); free() }
	if err := chromedp.Do(ctx); err != nil {
		end()
		require.NoError(t, err)
	}
	return ctx, end
}
