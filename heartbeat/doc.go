// Package heartbeat is the client's side of a server that closes silent connections:
// it sends beats in time, finds out when the server has gone, and connects again.
//
//	c, err := heartbeat.Start(conn, heartbeat.Options{
//		Timeout: 30 * time.Second, // the server's
//		Message: []byte("PING\n"),
//		Answer:  heartbeat.AnswerRead,
//	})
//	...
//	lines := bufio.NewScanner(c) // read from c, and write to it
//
// A beat is sent after a third of the server's timeout without a write. What is
// written to the [Conn] is life to the server, so it makes a beat unnecessary, and costs
// some nanoseconds to notice. The first beat comes after a random part of that time, and
// each connection has an interval a little of its own, so that thousands which connect
// together don't beat together.
//
// Where the server answers beats, [Options].Answer says what an answer is. If none comes in
// time, the connection is closed, and a Read that waits for it returns [ErrNoAnswer].
// A client that writes all the time still sends a beat once per Timeout if nothing is
// heard of the server.
//
// All connections of a [Beater] have one timing wheel: beats for ten thousand
// connections take neither ten thousand goroutines nor timers.
//
// # When this process was stopped
//
// The wheel notices when the process did not run for a second or more: a suspended
// machine, SIGSTOP. The server has been counting meanwhile, so beats whose time has come
// are sent at once. An answer that is missing is not held against the server before this
// program has had the time to read.
//
// # Connecting again
//
// [Reconnect] runs a session on one connection after the other, with full jitter between
// them, and stops where the error says that trying again is pointless.
//
// # When not to use this package
//
// Protocols whose libraries send pings of their own, such as gRPC, HTTP/2 and most
// clients of MQTT, need nothing else. For one connection, whose only writer has a loop
// with a select already, a time.Ticker there is simpler. TCP keepalive needs no code at all
// where the server counts what its kernel hears, and nobody minds a server that hangs.
package heartbeat
