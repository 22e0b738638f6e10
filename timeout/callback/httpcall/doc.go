// Package httpcall makes callbacks over HTTP: the payload of a task is the body of a request.
// It is the Caller of kind "http".
//
//	calls, err := httpcall.New(httpcall.Config{Secrets: [][]byte{secret}})
//
// # Request
//
// The method is POST, unless the callback says GET, HEAD, PUT, PATCH or DELETE. GET and HEAD send no
// payload. The Content-Type is application/json if the payload is JSON and application/octet-stream
// otherwise, unless the callback has one. Each attempt sends the request once. Only GET, HEAD, and a
// request certainly unread by the target are sent again on another connection.
//
// The headers are those of package callback and those of the callback. Idempotency-Key is the same
// for all attempts. The task's Trace is traceparent, tracestate and baggage. With Secrets the request
// is signed as in Standard Webhooks 1.0.0 (webhook-id, webhook-timestamp, webhook-signature). Most
// languages have libraries for it; [Verify] is one in Go.
//
// # Answer
//
//   - 2xx: done. 202 is [timeout.ErrAccepted] if the callback has the header
//     "Prefer: respond-async" (RFC 7240): then the result is fed back later, with the token in
//     Heartwheel-Token. Without that header 202 is done, too, as many targets say it and mean no
//     more.
//   - 3xx, 410, and the callback's Final: dead at once. Redirects are not followed.
//   - All other answers, and none at all: the next attempt may succeed. A target says 404 during
//     a rollout, 401 with an old token, and 409 to a key still in progress. A Retry-After is
//     followed, in seconds or as a date, up to MaxRetryAfter. An attempt with the answer 429 does not
//     count ([timeout.Uncounted]): the target has only put it off.
//
// An answer below 500 proves that the host lives, but for 408 and 429. All other answers, timeouts and refused
// connections are failures of the host, final or not. After several of them in a row the center makes no calls to the
// host for a while, but one now and then as a trial (see timeout.Config.Circuit). So a task or a path that the host
// refuses costs no more than its own attempts.
//
// # Targets
//
// The setter of a task chooses the target, and this program calls it from inside of its network. So
// the Caller refuses special addresses: loopback, link-local (the place of cloud metadata), private
// and all others that are not public. It checks the address at the moment of dialing, whatever the
// name resolved to before. Config.Allow and AllowPrivate add addresses; Hosts limits the hosts.
// Proxies of the environment are not used.
package httpcall
