// Package callback is the common part of all calls: the facts about a task that a call carries
// beside the payload, and their text form. Each kind is a [timeout.Caller] in a package of its
// own: httpcall, natscall and streamcall. So a client library reaches only the programs that
// import its package.
//
// A target in Go reads the facts with [Parse]. Others follow the names of the headers.
package callback
