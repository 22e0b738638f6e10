package tab

import (
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
)

func (b *Tab) note(to *[]string, what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*to = append(*to, what)
}

// Messages returns what the console has said.
func (b *Tab) Messages() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.messages)
}

// Requests returns the URLs requested by the page.
func (b *Tab) Requests() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.requests)
}

// RequireOwnRequests requires at least one request of the page, and none but for its own URLs and the
// picture in it.
func (b *Tab) RequireOwnRequests(own func(url string) bool) {
	b.t.Helper()
	requests := b.Requests()
	require.NotEmpty(b.t, requests)
	for _, r := range requests {
		require.True(b.t, own(r) || strings.HasPrefix(r, "data:image/svg+xml,"), r)
	}
}
