// Package callback is the common part of all calls: the facts about a task in each call beside the
// payload, and their text form. Each kind is a [timeout.Caller] in a package of its own: httpcall,
// natscall and streamcall. So a program links the client library only if it imports that package.
//
// A target in Go reads the facts with [Parse]. Others follow the names of the headers.
package callback
