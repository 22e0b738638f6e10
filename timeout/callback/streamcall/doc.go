// Package streamcall makes callbacks into Redis streams: the payload of a task is added to a
// stream as an entry (XADD), for consumer groups to read. It is the Caller of kind "redis".
//
//	calls, err := streamcall.New(client, streamcall.Config{Prefix: "events:"})
//
// An entry has these fields, all as text except for the payload, kept as it was set:
//
//	key      the idempotency key: the same for all attempts of one set
//	topic    the task's topic
//	id       its id
//	version  its version
//	attempt  1 for the first
//	due      its action time, in milliseconds since the epoch
//	token    the token of the lease, if there is one
//	payload  its payload
//
// The fields of the task's Trace follow, then one for each header of the callback, in the order of their
// names. The header MAXLEN is no field: it is how many entries the stream keeps, roughly (MAXLEN ~). The
// oldest are dropped.
//
// Redis does not know about idempotency keys. If an attempt was carried out and its answer lost, the
// next one adds another entry with the same key, and consumers drop it. One attempt never adds two
// entries: repeats of the client library are off.
package streamcall
