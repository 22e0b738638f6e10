// Package debughttp shows a Keeper at work: a page for people, and JSON at the same
// address for programs.
//
//	page, err := debughttp.New(k, debughttp.Config{})
//	...
//	mux.Handle("/debug/wheel", page)
//
// The page is one HTML document without any request to others: the wheel with its
// slots and hands, connections and their ends over time, lateness, the idlest
// connections, those that were closed last and why, and the config in force.
//
// # Who may see it
//
// Only this machine, unless [Config].AllowRemote says otherwise: then it is up to the
// program, or to a proxy, who else. Nothing can be changed by it. It shows the
// addresses of peers, or with HideAddrs names that stand for them.
//
// # What it costs
//
// Nothing while nobody looks, but for some 50 ns whenever a connection ends: there is
// no goroutine and no timer. A [Snapshot] is taken when somebody asks, and serves
// all who ask within the next 200 ms, or within 20 times as long as it took. The
// idlest connections are looked for at a pace of their own, by the same rule. So
// viewers, however many they are, take a tenth of a processor at most.
//
// # What it does not show
//
// Touches per second: a touch takes a few nanoseconds because nobody counts it.
// What there is instead is how many connections were found touched when somebody came
// to them, as Wheel.Refiled: the hand, or a look for the idlest, which files those
// again that were touched. So a wheel that is looked at is tidier than one that is not.
package debughttp
