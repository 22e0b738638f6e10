// Package debughttp shows a Keeper at work: a page for people, and JSON at the same
// address for programs.
//
//	page, err := debughttp.New(k, debughttp.Config{})
//	...
//	mux.Handle("/debug/wheel", page)
//
// The page is one HTML document without any request to others: the wheel with its slots and
// hands, connections and their ends over time, lateness, the idlest connections, the last
// closed ones with their reasons, and the config in force.
//
// # Connections
//
// With view=connections in the query, the page and the JSON list the connections: sorted, searched,
// page by page, and the last 1000 closed ones with their reasons. See [Listing].
//
// # Access
//
// Only this machine may see it, unless [Config].AllowRemote is set: then the program, or a
// proxy, has to keep strangers out. Nobody can change anything by it, unless [Config].CloseToken lets
// viewers close a connection. It shows the addresses of
// peers, or made-up names with HideAddrs. [CheckHost] protects the other pages of a program from
// rebound names.
//
// # Cost
//
// Nothing while nobody looks, but for some 50 ns whenever a connection ends: there is no
// goroutine and no timer. A [Snapshot] is taken on request. It serves all requests of the next
// 200 ms, or of 20 times its own cost. The search for the idlest connections has its own pace,
// by the same rule. So any number of viewers takes a tenth of a processor at most.
//
// # Missing on purpose
//
// Touches per second: a touch takes a few nanoseconds because nobody counts it. Wheel.Refiled
// is there instead: how often a visit of the hand found a connection touched.
package debughttp
