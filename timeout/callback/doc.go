// Package callback is what the calls of all kinds have in common: what is said about a task
// beside its payload, and how it is written. Each kind is a [timeout.Caller] in a package of
// its own, so that its client library reaches only programs that import it: httpcall,
// natscall and streamcall.
//
// Who is called can read it with [Parse], in Go, or follow the names of the headers.
package callback
