// Package natscall makes callbacks over NATS: it publishes the payload of a task to a subject of a
// JetStream stream. It is the Caller of kind "nats".
//
//	conn, err := nats.Connect(url, nats.ReconnectBufSize(-1))
//	...
//	js, err := jetstream.New(conn)
//	...
//	calls, err := natscall.New(js, natscall.Config{})
//
// The task is done when the stream has acknowledged the message. The message has the headers of
// package callback and those of the callback. NATS tells the case of names: traceparent is in lower case.
// The idempotency key is its Nats-Msg-Id as well: within
// its window for duplicates (Duplicates of the stream, 2 minutes by default) a stream keeps one
// message of several attempts. Attempts further apart can lead to two messages with the same key.
//
// A subject without a stream is a failure like any other, and the task is tried again. Somebody may
// make the stream later, and a stream without a leader looks the same. If the stream or the server
// will never take the message, for example because it is too long, the task is dead at once. A
// server takes 1 MiB with the headers by default (max_payload), so not the longest of payloads.
package natscall
