// Package streamcall makes callbacks into Redis streams: the payload of a task is added to a
// stream as an entry (XADD), for consumer groups to read. It is the Caller of kind "redis".
//
//	calls, err := streamcall.New(client, streamcall.Config{Prefix: "events:"})
//
// An entry has these fields, all as text but for the payload, which is as it was set:
//
//	key      the idempotency key: the same for all attempts of what was set once
//	topic    the task's topic
//	id       its id
//	version  its version
//	attempt  1 for the first
//	due      its action time, in milliseconds since the epoch
//	token    the token of the lease, where there is one
//	payload  its payload
//
// and then one for each header of the callback, in the order of their names. But for the
// header MAXLEN: it is not a field, but how many entries the stream keeps, roughly
// (MAXLEN ~), of which the oldest are dropped.
//
// Redis does not know about idempotency keys: where an attempt was carried out and its answer
// lost, the next one adds another entry with the same key, and consumers drop it. One attempt
// never adds two: repeats of the client library are off.
package streamcall
