package page

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The policy allows the page's own script and style, and nothing else. Nothing in the page
// takes markup or sends requests elsewhere.
func TestThePageIsItsOwn(t *testing.T) {
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	body, policy := w.Body.String(), w.Header().Get("Content-Security-Policy")
	for _, tag := range []string{"script", "style"} {
		parts := regexp.MustCompile(`(?s)<`+tag+`>(.*?)</`+tag+`>`).FindAllStringSubmatch(body, -1)
		require.Len(t, parts, 1, tag)
		sum := sha256.Sum256([]byte(parts[0][1]))
		require.Contains(t, policy, tag+"-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	}
	require.Contains(t, policy, "default-src 'none'")
	require.Contains(t, policy, "require-trusted-types-for 'script'")
	for _, bad := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", " style=\"", "/*style*/", "/*script*/"} {
		require.NotContains(t, body, bad)
	}
	for _, link := range regexp.MustCompile(`https?://[^\s'"]+`).FindAllString(body, -1) {
		require.Equal(t, "http://www.w3.org/2000/svg", link, "a name, which nobody asks for")
	}
	require.Empty(t, regexp.MustCompile(`<[^>]+ on[a-z]+=`).FindAllString(strings.Split(body, "<script>")[0], -1))

	w = httptest.NewRecorder()
	Handler().ServeHTTP(w, httptest.NewRequest(http.MethodHead, "/", nil))
	require.Zero(t, w.Body.Len())
	require.NotEqual(t, "0", w.Header().Get("Content-Length"))
}
