package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAMaskedCallbackHasNoSecretAndCanNotBeSet(t *testing.T) {
	for target, want := range map[string]string{
		"https://example.com/hook":                  "https://example.com/hook",
		"https://example.com/hook?api_key=s3cret":   "https://example.com/hook?***",
		"https://example.com?s3cret#s3cret":         "https://example.com?***",
		"https://example.com/#s3cret":               "https://example.com/#***",
		"https://s3cret:s3cret@example.com/a":       "https://***@example.com/a",
		"https://s3cret@[::1]:9/a?s3cret":           "https://***@[::1]:9/a?***",
		"https://a:s3cret@s3cret@example.com":       "https://***@example.com",
		"https://example.com/@me/it://x@y?s3cret=1": "https://example.com/@me/it://x@y?***",
		"/login?next=s3cret":                        "/login?***",
		"orders.unpaid@eu":                          "orders.unpaid@eu",
	} {
		call := Callback{Kind: "http", Target: target, Header: map[string]string{"Authorization": "Bearer s3cret", "X-Empty": ""}}
		require.NoError(t, call.Check())
		masked := call.Masked()
		require.Equal(t, want, masked.Target)
		require.Equal(t, map[string]string{"Authorization": "***", "X-Empty": "***"}, masked.Header)
		require.Equal(t, "Bearer s3cret", call.Header["Authorization"], "the callback stays as it is")
		require.Equal(t, masked, masked.Masked())
		require.ErrorIs(t, masked.Check(), ErrArgument)
		masked.Header = nil
		if want != target {
			require.ErrorContains(t, masked.Check(), "callback with *** in place of a secret")
		} else {
			require.NoError(t, masked.Check())
		}
	}
	require.Equal(t, Callback{Kind: "http", Target: "http://a"}, Callback{Kind: "http", Target: "http://a"}.Masked())
}
