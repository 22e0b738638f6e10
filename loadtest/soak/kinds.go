package main

import (
	"math/rand/v2"
	"time"
)

// kind is how a client behaves. Times are parts of the server's timeout.
type kind struct {
	name  string
	share int // of 1000 clients

	lives bool // it gives a sign of life within each timeout, so no silence may end it

	first  bool    // it says a line at once
	beat   float64 // the pause between two lines; 0: no more lines
	size   int     // of a line, in bytes; 0: a few
	byByte bool    // no line ends
	pongs  bool    // it answers pings
	slowly bool    // it reads a byte at a time
	unread bool    // it reads nothing
	lines  int     // it leaves after so many; 0: never by itself
	vanish bool    // its machine vanishes now and then

	why []string // reasons, besides silence, that the server may have to end it
}

// What the server says to those that break a rule.
const (
	tooMany = "ERR more than"
	tooSlow = "ERR less than"
	noWord  = "" // it can't say a word to somebody who does not read
)

var kinds = []kind{
	{name: "talks", share: 613, lives: true, first: true, beat: 0.3},
	{name: "answers pings", share: 100, lives: true, first: true, pongs: true},
	{name: "reads slowly", share: 50, lives: true, first: true, beat: 0.6, slowly: true},
	{name: "says nothing", share: 20},
	{name: "falls silent", share: 80, first: true},
	{name: "half a line", share: 40, first: true, beat: 0.05, byByte: true},
	{name: "too few bytes", share: 20, first: true, beat: 0.4, size: 1, why: []string{tooSlow}},
	{name: "too many lines", share: 5, first: true, beat: 0.0005, why: []string{tooMany}},
	{name: "never reads", share: 2, first: true, beat: 0.0002, size: 4 << 10, unread: true, why: []string{tooMany, noWord}},
	{name: "comes and goes", share: 40, lives: true, first: true, beat: 0.2, lines: 3},
	{name: "vanishes", share: 30, lives: true, first: true, beat: 0.3, vanish: true},
}

// goesOn reports whether it gives signs of life until its end.
func (k *kind) goesOn() bool { return k.lives || k.beat > 0 && !k.byByte }

func (k *kind) pause(timeout time.Duration) time.Duration {
	return time.Duration(k.beat * float64(timeout))
}

// population returns the kinds of so many clients, at least one of each.
func population(clients int) []*kind {
	all := make([]*kind, 0, clients)
	for i := len(kinds) - 1; i > 0; i-- {
		for range max(1, clients*kinds[i].share/1000) {
			all = append(all, &kinds[i])
		}
	}
	for len(all) < clients {
		all = append(all, &kinds[0])
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}
