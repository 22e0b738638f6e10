//go:build browser

package browsertest

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/browsertest/tab"
)

// The test that a crash hits fails, and the next one has another browser. No other test runs at the same time.
func TestAnotherBrowserComesAfterACrash(t *testing.T) {
	b := tab.Open(t, "about:blank", 800, 600)
	require.NoError(t, chromedp.FromContext(b.Context()).Browser.Process().Kill())
	<-b.Context().Done()
	_, err := chromedp.Run(b.Context(), chromedp.Evaluate[int]("1"))
	require.Error(t, err)

	b = tab.Open(t, "about:blank", 800, 600)
	require.Equal(t, 1, tab.Eval[int](b, "1"))
}
