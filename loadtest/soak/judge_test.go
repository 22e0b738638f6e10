package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func named(name string) *kind {
	for i := range kinds {
		if kinds[i].name == name {
			return &kinds[i]
		}
	}
	panic(name)
}

func TestAnEndIsJudgedByWhatTheClientDid(t *testing.T) {
	const timeout = 10 * time.Second
	r := newRules(timeout)
	for _, c := range []struct {
		kind   string
		age    time.Duration // of the connection
		silent time.Duration // since its last sign of life
		said   time.Duration // when its first line was sent; negative: never
		text   string
		leaves bool
		want   verdict
	}{
		{"talks", time.Minute, time.Second, 0, "BYE server shutting down", true, right},
		{"talks", time.Minute, time.Second, 0, "BYE server shutting down", false, wrong},
		{"talks", time.Minute, time.Second, 0, "", true, right},
		{"talks", time.Minute, time.Second, 0, "", false, wrong},
		{"talks", time.Minute, 20 * time.Second, 0, "", false, wrong},
		{"talks", 180 * time.Second, time.Second, 0, "BYE maximum age 3m20s", false, right},
		{"talks", 179 * time.Second, time.Second, 0, "BYE maximum age 3m20s", false, early},
		{"talks", time.Minute, timeout - 1, 0, "BYE no answer to PING", false, early},
		{"talks", time.Minute, timeout, 0, "BYE no answer to PING", false, ownLate},
		{"talks", time.Minute, time.Second, 0, "ERR more than a heartbeat per 50ms", false, wrong},
		{"talks", time.Minute, 3 * time.Second, 0, "BYE closed to make room", false, early},
		{"talks", 6 * time.Second, 5 * time.Second, time.Second, "BYE first message timeout 5s", false, wrong},
		{"talks", 6 * time.Second, 5 * time.Second, 5 * time.Second, "BYE first message timeout 5s", false, ownLate},
		{"talks", time.Minute, time.Second, 0, "ERR too many connections", false, right},
		{"talks", time.Minute, time.Second, 0, "what nobody says", false, wrong},
		{"says nothing", 5 * time.Second, 5 * time.Second, -1, "BYE first message timeout 5s", false, right},
		{"says nothing", 5*time.Second - 1, 5*time.Second - 1, -1, "BYE first message timeout 5s", false, early},
		{"falls silent", time.Minute, timeout, 0, "BYE idle timeout 10s", false, right},
		{"falls silent", time.Minute, timeout - 1, 0, "BYE idle timeout 10s", false, early},
		{"falls silent", time.Minute, 7 * time.Second, 0, "BYE closed to make room", false, right},
		{"falls silent", time.Minute, 7 * time.Second, 0, "", false, right},
		{"falls silent", time.Minute, 7*time.Second - 1, 0, "", false, early},
		{"too few bytes", time.Minute, 0, 0, "ERR less than 1 bytes per second", false, right},
		{"too few bytes", time.Minute, 0, 0, "ERR more than a heartbeat per 50ms", false, wrong},
		{"never reads", time.Minute, 0, 0, "", false, right},
	} {
		at := time.Now()
		e := ending{kind: named(c.kind), dialed: at.Add(-c.age), life: at.Add(-c.silent), at: at, text: c.text, leaves: c.leaves}
		if c.said >= 0 {
			e.said = e.dialed.Add(c.said)
		}
		got, why := r.judge(e)
		require.Equal(t, c.want, got, "%+v: %s", c, why)
	}
}

func TestNobodyIsBlamedForAPingThatWasReadLate(t *testing.T) {
	const timeout = 10 * time.Second
	r := newRules(timeout)
	for _, c := range []struct {
		kind, text string
		late       time.Duration
		want       verdict
	}{
		{"answers pings", "BYE no answer to PING", 0, early},
		{"answers pings", "BYE no answer to PING", 2 * time.Second, ownLate},
		{"answers pings", "BYE closed to make room", 2 * time.Second, ownLate},
		{"answers pings", "BYE maximum age 3m20s", 2 * time.Second, early},
		{"answers pings", "ERR more than a heartbeat per 50ms", 2 * time.Second, wrong},
		{"answers pings", "", 2 * time.Second, wrong},
		{"falls silent", "BYE no answer to PING", 2 * time.Second, early},
		{"half a line", "BYE no answer to PING", 2 * time.Second, early},
		{"too few bytes", "BYE no answer to PING", 2 * time.Second, ownLate},
		{"too few bytes", "BYE no answer to PING", 0, early},
	} {
		at := time.Now()
		e := ending{kind: named(c.kind), dialed: at.Add(-time.Minute), life: at.Add(-time.Millisecond), at: at, late: c.late, text: c.text}
		got, why := r.judge(e)
		require.Equal(t, c.want, got, "%+v: %s", c, why)
	}
}

func TestThePopulationHasAllKinds(t *testing.T) {
	for _, clients := range []int{len(kinds), 100, 15_000} {
		count := map[string]int{}
		for _, k := range population(clients) {
			count[k.name]++
		}
		require.Len(t, count, len(kinds))
		sum := 0
		for _, n := range count {
			sum += n
		}
		require.Equal(t, clients, sum)
	}
	shares := 0
	for _, k := range kinds {
		shares += k.share
	}
	require.Equal(t, 1000, shares)
}
