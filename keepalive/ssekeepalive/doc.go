// Package ssekeepalive keeps the quiet event streams of net/http alive: one timing wheel sends them a comment now and
// then, as the HTML standard advises, so that no proxy between closes them for their silence. There is neither a goroutine
// nor a ticker per stream, and no change of a handler:
//
//	streams, err := ssekeepalive.New(ssekeepalive.Config{Interval: 15 * time.Second})
//	...
//	mux.Handle("/events", streams.Wrap(handler))
//
// The handler may be a library's, such as that of an MCP server. It works with HTTP/1.1 and HTTP/2.
//
//   - A stream begins with its header: with WriteHeader, a Write or a Flush. A handler that has set its Content-Type, and
//     then works, has no stream yet, and nobody else can begin it. Flush first.
//   - A stream gets a comment when it has been quiet for Config.Interval: since its last Flush, or the last comment. An
//     event costs two looks at the clock more, some 0.2 µs. After this process was stopped for a while, all streams get
//     a comment, and the next one may be another second late.
//   - A comment comes between two events. If the written bytes don't end in a blank line, an event is under way, and the
//     comment has to wait. Stats.Withheld counts these: it grows if a program never ends its event.
//   - A Write or a Flush that takes longer than Config.WriteTimeout ends its stream, of the program's as of a comment:
//     the reader is too slow. The write fails, see [ErrSlowReader], and the context of the request ends. Others are not held
//     up: each comment that blocks has a goroutine for as long.
//   - A comment sends what the program has written and not flushed.
//   - The handler's writes wait for a comment under way, and so does its end. After the handler has returned or
//     panicked, there are no comments, and writes fail.
//
// A vanished reader is noticed, too, if anything bounds the time for bytes on their way: Timeout of a keepalive.Keeper
// does with package httpkeepalive, for TCP on Linux, and so does the TCP user timeout. A held connection without bytes
// to send would never be noticed.
//
// # Its neighbours
//
// http.Server.WriteTimeout would end a stream that long after its request. Config.WriteTimeout takes its place for event
// streams, so it need not be zero.
//
// With HTTP/2, bytes wait for the reader's window, and WriteTimeout bounds that wait: the end is an RST_STREAM. If the
// whole connection is stuck, that frame is, too, and its streams end with the connection: set
// http.Server.HTTP2.WriteByteTimeout.
//
// A middleware that compresses goes around Wrap, not inside: a comment within its output would break that. A stream with
// a Content-Encoding gets no comments. The middleware must pass Flush on, and have Unwrap for the end of slow readers.
//
// Other responses pass with their Flush, Hijack and ReadFrom. But http.MaxBytesReader knows only net/http's own
// ResponseWriter, and does not close the connection by itself: wrap the routes that have event streams. A handler that
// takes the ResponseWriter inside, by Unwrap, writes past the comments' lock.
//
// # When not to use this package
//
// For WebSockets there is package wskeepalive. A handler with its own loop and a few streams needs no more than a
// time.Ticker. For responses that are not event streams nobody knows what bytes mean nothing.
package ssekeepalive
