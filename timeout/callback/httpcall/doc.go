// Package httpcall makes callbacks over HTTP: the payload of a task is the body of a request.
// It is the Caller of kind "http".
//
//	calls, err := httpcall.New(httpcall.Config{Secrets: [][]byte{secret}})
//
// # Request
//
// POST, unless the callback says GET, HEAD, PUT, PATCH or DELETE; with GET and HEAD the
// payload is not sent. The Content-Type is application/json where the payload is JSON and
// application/octet-stream otherwise, unless the callback has one. Each attempt sends the
// request once: only GET, HEAD, and what certainly was not read by the target, is sent again
// on another connection.
//
// The headers are those of package callback, of which Idempotency-Key is the same for all
// attempts, and those of the callback. Where there are Secrets the request is signed as in
// Standard Webhooks 1.0.0 (webhook-id, webhook-timestamp, webhook-signature), for which there
// are libraries in most languages; [Verify] is one in Go.
//
// # Answer
//
//   - 2xx: done. 202 is [timeout.ErrAccepted] where the callback has the header
//     "Prefer: respond-async" (RFC 7240): then the result is fed back later, with the token in
//     Heartwheel-Token. Without it 202 is done, too, as many targets say it and mean no more.
//   - 3xx, 410, and the callback's Final: dead at once. Redirects are not followed.
//   - All other answers, and none at all: the next attempt may succeed. A target says 404 during
//     a rollout, 401 with an old token, and 409 to a key still in progress. A Retry-After is
//     followed, in seconds or as a date, up to MaxRetryAfter.
//
// Each answer but a 2xx counts as a failure of the host, final or not. After some in a row the host
// is left alone for a while (see timeout.Config.Circuit).
//
// # Targets
//
// Who sets a task chooses whom this program calls, from inside of its network. So addresses
// that are not for everybody are refused: loopback, link-local (where clouds have their
// metadata), private and all other special ones. What counts is the address that is really
// dialed, whatever the name resolved to before. Config.Allow and AllowPrivate permit what is
// needed, Hosts permits nothing else. Proxies of the environment are not used.
package httpcall
