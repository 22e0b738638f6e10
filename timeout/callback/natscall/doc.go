// Package natscall makes callbacks over NATS: the payload of a task is published to a subject
// that a JetStream stream listens to. It is the Caller of kind "nats".
//
//	js, err := jetstream.New(conn)
//	...
//	calls, err := natscall.New(js, natscall.Config{})
//
// The task is done when the stream has acknowledged the message. The message has the headers
// of package callback and those of the callback, and the idempotency key as Nats-Msg-Id as
// well: within its window for duplicates (Duplicates of the stream, 2 minutes by default) a
// stream keeps the message of several attempts once. Attempts that are further apart can be
// there twice, with the same key.
//
// A subject that no stream listens to is a failure like any other, and is tried again: the
// stream may be made later, and a stream that is electing a leader looks the same. What the
// stream or the server will never take, such as a message that is too long, is dead at once.
// A server takes 1 MiB with the headers unless it is told otherwise (max_payload), so not the
// longest of payloads.
package natscall
