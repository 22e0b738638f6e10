package httpkeepalive

import (
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// Refuse returns a keepalive.Config.OnRefuse that answers refused HTTP requests, and handshakes of WebSockets, with a
// status, most often 503 or 429. retryAfter is how long the client should wait, in whole seconds, rounded up; zero means
// no Retry-After.
//
// The answer is one of HTTP/1.1, without a body, and with Connection: close. It is written below TLS, so it is for plain
// HTTP, say behind a proxy that ends TLS. A client of HTTP/2 takes it for an error.
//
// Refuse panics if status is not from 400 to 599, or if retryAfter is negative.
func Refuse(status int, retryAfter time.Duration) func(conn any, reason keepalive.Reason) []byte {
	switch {
	case status < 400 || status > 599:
		panic(fmt.Sprintf("httpkeepalive: Refuse needs a status from 400 to 599, and got %d", status))
	case retryAfter < 0:
		panic(fmt.Sprintf("httpkeepalive: Refuse needs a time to retry after, and got %v", retryAfter))
	}
	retry := ""
	if retryAfter > 0 {
		retry = fmt.Sprintf("Retry-After: %.0f\r\n", math.Ceil(retryAfter.Seconds()))
	}
	answer := fmt.Appendf(nil, "HTTP/1.1 %d %s\r\n%sContent-Length: 0\r\nConnection: close\r\n\r\n", status, http.StatusText(status), retry)
	return func(any, keepalive.Reason) []byte { return answer }
}
