// Package heartbeat is for clients of a server that closes silent connections: it sends beats in
// time, finds out when the server has gone, and connects again.
//
//	c, err := heartbeat.Start(conn, heartbeat.Options{
//		Timeout: 30 * time.Second, // the server's
//		Message: []byte("PING\n"),
//		Answer:  heartbeat.AnswerRead,
//	})
//	...
//	lines := bufio.NewScanner(c) // read from c, and write to it
//
// A beat is sent after a third of the server's timeout without a write. A write to the [Conn] is
// life to the server. So it makes a beat unnecessary, and costs some nanoseconds to notice. The
// first beat comes after a random part of the interval, and each connection has a slightly
// different interval: thousands of clients may connect together, but don't beat together.
//
// If the server answers beats, [Options].Answer says what an answer is. If none comes in time, the
// connection is closed, and a waiting Read returns [ErrNoAnswer]. Even a client with constant
// writes sends a beat once per Timeout if it hears nothing of the server, but never during a Write:
// see [Conn].
//
// All connections of a [Beater] have one timing wheel: beats for ten thousand
// connections take neither ten thousand goroutines nor timers.
//
// # When this process was stopped
//
// The wheel notices when the process did not run for a second or more: a suspended machine,
// SIGSTOP. The server has been counting meanwhile, so due beats are sent at once. A missing answer
// does not count against the server before this program has had the time to read.
//
// # Connecting again
//
// [Reconnect] runs a session on one connection after the other, with full jitter between them, and
// stops after an error for which trying again is pointless.
//
// # When not to use this package
//
// Some libraries send pings of their own: gRPC, HTTP/2 and most clients of MQTT need nothing else.
// For one connection with a select loop as its only writer, a time.Ticker there is simpler. TCP
// keepalive needs no code at all, if the server counts whatever its kernel hears, and a hanging
// server does not matter.
package heartbeat
