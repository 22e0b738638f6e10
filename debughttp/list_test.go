package debughttp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

const secret = "a token of 24 characters"

func TestBadParametersAreNamedWithTheirLimits(t *testing.T) {
	k := newKeeper(t, keepalive.Config{})
	h, hiding := newHandler(t, k, Config{}), newHandler(t, k, Config{HideAddrs: true})
	for query, want := range map[string]string{
		"limit=0":                           `limit "0", must be a number from 1 to 1000`,
		"limit=1001":                        `limit "1001", must be a number from 1 to 1000`,
		"limit=-1":                          `limit "-1", must be`,
		"id=x":                              `id "x", must be a number from 1 to 9223372036854775807`,
		"id=9223372036854775808":            `must be a number from 1 to 9223372036854775807`,
		"sort=bytes":                        `sort "bytes", must be one of idle, id, addr, age, left, round_trip`,
		"sort=left&state=closed":            `sort "left", must be one of closed, id, addr, age, idle`,
		"order=up":                          `order "up", must be one of desc, asc`,
		"state=gone":                        `state "gone", must be one of open, new, held, probing, leaving, closed`,
		"addr=10.0.0.0/33":                  `addr "10.0.0.0/33", must be an IP address`,
		"addr=nobody":                       `addr "nobody", must be an IP address`,
		"after=1-2-3":                       `after "1-2-3", must be the next or the previous of an answer`,
		"before=1-2-3-x":                    `before "1-2-3-x", must be the next or the previous of an answer`,
		"after=1-2-3-4&before=1-2-3-4":      `before "1-2-3-4", must not come with after`,
		"reason=idle":                       `reason "idle", must come with state=closed`,
		"state=closed&reason=bored":         `reason "bored", must be one of peer, local, idle`,
		"key=bob&state=closed":              `key "bob", must not come with state=closed`,
		"min_idle=5":                        `min_idle "5", must be a duration`,
		"min_age=-5s":                       `min_age "-5s", must be a duration`,
		"label=" + strings.Repeat("x", 257): `is of 257 bytes, must be of at most 256`,
	} {
		w := asked(h, query)
		require.Equal(t, http.StatusBadRequest, w.Code, query)
		require.Contains(t, w.Body.String(), want)
		require.Contains(t, w.Body.String(), "debughttp: invalid argument")
	}
	for _, query := range []string{"sort=addr", "addr=192.0.2.1"} { // the answer would tell addresses
		require.Equal(t, http.StatusBadRequest, asked(hiding, query).Code, query)
	}
	r := from(local, "localhost")
	r.URL.RawQuery = "view=all"
	require.Contains(t, ask(h, r).Body.String(), `view "all", must be connections`)
}

func TestAnAddressIsFoundHoweverItIsWritten(t *testing.T) {
	for text, found := range map[string]string{
		"192.0.2.7":             "192.0.2.7:80",
		"192.0.2.7:80":          "[::ffff:192.0.2.7]:80",
		"[::ffff:192.0.2.7]:80": "192.0.2.7:80",
		"::ffff:192.0.2.7":      "192.0.2.7:80",
		"192.0.2.0/29":          "[::ffff:192.0.2.7]:80",
		"::ffff:192.0.2.0/125":  "192.0.2.7:80",
		"2001:db8::1":           "[2001:db8::1]:443",
		"[2001:db8::1]":         "[2001:db8::1]:443",
		"[2001:db8::1]:443":     "[2001:db8::1]:443",
		"2001:db8::/32":         "[2001:db8::1]:443",
		"fe80::1%eth0":          "[fe80::1%eth1]:443",
	} {
		matches := addrMatcher(text)
		require.NotNil(t, matches, text)
		require.True(t, matches(ipOf(addr(found))), text)
		require.True(t, matches(ipOf(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(found)))), text)
		for _, other := range []net.Addr{nil, addr("panic"), addr("192.0.3.7:81"), addr("x"), &net.UnixAddr{Name: found}, (*net.TCPAddr)(nil)} {
			require.False(t, matches(ipOf(other)), text)
		}
	}
}

// The reference sorts everything, for each page.
func TestPagesAreThoseOfTheSortedWhole(t *testing.T) {
	for range 300 {
		n, limit := rand.N(60), 1+rand.N(12)
		all := make([]entry, n)
		for i := range all {
			all[i].ID = uint64(i + 1)
			all[i].RoundTrip = time.Duration(rand.N(8)) // many are the same
		}
		q := query{sort: byRoundTrip, limit: limit, desc: rand.N(2) == 0}
		reference := selection{q: &q}
		sorted := slices.Clone(all)
		for i := range sorted {
			sorted[i].place = place{q.sort.key(&sorted[i]), sorted[i].ID}
		}
		slices.SortFunc(sorted, func(a, b entry) int { return reference.compare(a.place, b.place) })
		turn := func(q query) ([]entry, int) {
			rand.Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] })
			s := selection{q: &q}
			for i := range all {
				s.offer(&all[i])
			}
			require.Equal(t, n, s.total)
			return s.page()
		}
		from := 0
		for {
			page, before := turn(q)
			require.Equal(t, from, before)
			require.Equal(t, idsOf(sorted[from:min(n, from+limit)]), idsOf(page))
			if from += len(page); from >= n {
				break
			}
			parsed, err := parsePlace(page[len(page)-1].place.String())
			require.NoError(t, err)
			q.after = &parsed
		}
		for from > 0 { // and back
			q.after = nil
			if from < n {
				q.before = &sorted[from].place
			} else {
				q.before = &place{key{^uint64(0), ^uint64(0), ^uint64(0)}, ^uint64(0)}
				if q.desc {
					q.before = &place{}
				}
			}
			page, before := turn(q)
			to := from
			from = max(0, from-limit)
			require.Equal(t, from, before)
			require.Equal(t, idsOf(sorted[from:to]), idsOf(page))
		}
	}
}

func idsOf(entries []entry) []uint64 {
	ids := []uint64{}
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	return ids
}

func TestAConnectionIsDescribed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, keepalive.Config{Timeout: time.Minute, FirstMessage: 30 * time.Second})
		h := newHandler(t, k, Config{Label: func(conn any) string { name, _ := keepalive.Of(conn).Value().(string); return name }})
		defer k.Close()
		first, _ := connect(t, k, addr("192.0.2.1:1"))
		keepalive.Of(first).SetValue("client\x00 one")
		time.Sleep(10 * time.Second)
		second, _ := connect(t, k, addr("192.0.2.2:2"))
		release := keepalive.Of(second).Hold()
		time.Sleep(5 * time.Second)
		a, _ := net.Pipe()
		silent := k.Conn(a)
		defer silent.Close()

		l := listed(t, h, "")
		require.Equal(t, 3, l.Total)
		require.Equal(t, 3, l.Open)
		require.Equal(t, []uint64{1, 2, 3}, idsIn(l), "the idlest first")
		row := l.Connections[0]
		require.Equal(t, "192.0.2.1:1", row.Addr)
		require.Equal(t, "client\uFFFD one", row.Label)
		require.Equal(t, "open", row.State)
		require.InDelta(t, 15, row.Age, 0.2)
		require.InDelta(t, 15, row.Idle, 0.2)
		require.InDelta(t, 15, time.Since(row.OpenedAt).Seconds(), 0.2)
		require.InDelta(t, 60, *row.Timeout, 0)
		require.InDelta(t, 45, *row.Left, 0.2)
		require.Equal(t, "idle", row.Reason)
		require.Nil(t, row.RoundTrip)
		require.Nil(t, row.Received, "a pipe has no socket")
		require.Equal(t, "held", l.Connections[1].State)
		require.Nil(t, l.Connections[1].Left)
		require.Equal(t, "new", l.Connections[2].State)
		require.Equal(t, "first_message", l.Connections[2].Reason)
		require.Empty(t, l.Connections[2].Addr)

		for query, want := range map[string][]uint64{
			"sort=age":                         {1, 2, 3},
			"sort=age&order=asc":               {3, 2, 1},
			"sort=left":                        {3, 1, 2},
			"sort=addr":                        {1, 2, 3},
			"sort=addr&order=desc":             {3, 2, 1},
			"id=2":                             {2},
			"addr=192.0.2.0/24":                {1, 2},
			"addr=192.0.2.2:2":                 {2},
			"label=CLIENT":                     {1},
			"state=held":                       {2},
			"state=new":                        {3},
			"min_idle=12s":                     {1},
			"min_age=3s":                       {1, 2},
			"limit=1&sort=id":                  {1},
			"limit=1&sort=id&after=0-0-0-1":    {2},
			"limit=1&sort=id&before=0-0-0-3":   {2},
			"sort=id&after=0-0-0-3":            {},
			"sort=id&order=desc&after=0-0-0-3": {2, 1},
			"state=closed":                     {},
		} {
			require.Equal(t, want, idsIn(listed(t, h, query)), query)
		}
		release()
		require.NoError(t, second.Close())
		time.Sleep(31 * time.Second) // the end of the silent one
		l = listed(t, h, "state=closed")
		require.Equal(t, []uint64{3, 2}, idsIn(l), "the last one first")
		require.Equal(t, "first_message", l.Connections[0].Reason)
		require.Equal(t, "closed", l.Connections[0].State)
		require.InDelta(t, 30, l.Connections[0].Age, 0.3)
		require.InDelta(t, 30, l.Connections[0].Idle, 0.3)
		require.InDelta(t, 1, time.Since(*l.Connections[0].ClosedAt).Seconds(), 0.3)
		require.Equal(t, "192.0.2.2:2", l.Connections[1].Addr)
		require.Equal(t, []uint64{2}, idsIn(listed(t, h, "state=closed&reason=local")))
		require.Equal(t, []uint64{3, 2}, idsIn(listed(t, h, "state=closed&sort=age")))
		require.EqualValues(t, 3, see(t, h).Recent[0].ID)
	})
}

func idsIn(l Listing) []uint64 {
	ids := []uint64{}
	for _, c := range l.Connections {
		ids = append(ids, c.ID)
	}
	return ids
}

func TestHiddenAddressesAreFoundByTheirNames(t *testing.T) {
	k := newKeeper(t, keepalive.Config{})
	h := newHandler(t, k, Config{HideAddrs: true})
	connectMany(t, k, 10)
	l := listed(t, h, "sort=id")
	require.True(t, l.AddrsHidden)
	name := l.Connections[3].Addr
	require.Regexp(t, "^peer-[0-9a-f]{10}$", name)
	require.Equal(t, []uint64{4}, idsIn(listed(t, h, "addr="+name)))
}

func TestConnectionsAreFoundByTheirUser(t *testing.T) {
	k := newKeeper(t, keepalive.Config{Room: keepalive.Room{MaxPerUser: 1}})
	h, hiding := newHandler(t, k, Config{}), newHandler(t, k, Config{HideAddrs: true})
	all := connectMany(t, k, 10)
	require.NoError(t, all[3].guard.SetKey("ann\u202e"))
	require.NoError(t, all[5].guard.SetKey("bob"))
	require.Error(t, all[6].guard.SetKey("bob"))
	require.EqualValues(t, 1, see(t, h).Connections.Refused.PerUser)
	require.Equal(t, "ann\ufffd", listed(t, h, "id=4").Connections[0].Key)
	require.Empty(t, listed(t, h, "id=5").Connections[0].Key)
	require.Equal(t, []uint64{6}, idsIn(listed(t, h, "key=bob")))
	name := listed(t, hiding, "id=6").Connections[0].Key
	require.Regexp(t, "^user-[0-9a-f]{10}$", name)
	require.Equal(t, []uint64{6}, idsIn(listed(t, hiding, "key="+name)))
	require.Empty(t, idsIn(listed(t, hiding, "key=bob")))
}

// Pages stay whole while connections come and go: nobody open all the time is left out, and
// nobody comes twice.
func TestNobodyIsLeftOutBetweenPages(t *testing.T) {
	k := newKeeper(t, keepalive.Config{})
	h := newHandler(t, k, Config{})
	all := connectMany(t, k, 3000)
	seen := map[uint64]int{}
	query := "sort=addr&limit=250"
	for page := 0; ; page++ {
		l := listed(t, h, query)
		for _, id := range idsIn(l) {
			seen[id]++
		}
		if l.Next == "" {
			break
		}
		query = "sort=addr&limit=250&after=" + l.Next
		for i := page; i < len(all); i += 20 { // every twentieth leaves, page by page
			if b := all[i].guard.Binding(); b.Release() {
				b.Closed(true)
			}
		}
		connectMany(t, k, 50)
		h.looks.next = time.Time{}
	}
	for i := range all {
		if keepalive.Of(&all[i]).Touch() {
			require.Equal(t, 1, seen[uint64(i+1)], i)
		}
	}
}

func post(h http.Handler, token, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/debug/wheel", strings.NewReader(body))
	r.RemoteAddr, r.Host = local, "localhost"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return ask(h, r)
}

func TestAConnectionIsClosedByItsIDAndTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		ended := map[any]keepalive.Reason{}
		k := newKeeper(t, keepalive.Config{OnClose: func(conn any, reason keepalive.Reason) {
			mu.Lock()
			defer mu.Unlock()
			ended[conn] = reason
		}})
		h := newHandler(t, k, Config{CloseToken: secret})
		defer k.Close()
		from := addr("192.0.2.1:1")
		first, _ := connect(t, k, from)
		second, _ := connect(t, k, addr("192.0.2.1:2"))

		for _, w := range []*httptest.ResponseRecorder{
			post(h, "", "id=1"), post(h, "wrong", "id=1"), post(h, secret+"x", "id=1"), post(h, secret[:23], "id=1"),
			post(h, "", "id=1&token="+url.QueryEscape(secret)),
			post(h, secret, "id=1", "Sec-Fetch-Site", "cross-site"),
			post(h, secret, "id=1", "Origin", "https://evil.example"),
			post(h, secret, "id=1", "Authorization", secret),
			post(h, secret, "id=1", "X-Forwarded-For", "192.0.2.9"),
		} {
			require.Equal(t, http.StatusForbidden, w.Code)
			require.NotContains(t, w.Body.String(), secret)
		}
		for body, want := range map[string]string{
			"": "id is missing", "addr=192.0.2.1": "id is missing", "id=0": `id "0", must be a number`, "id=x": `id "x"`,
			"id=" + strings.Repeat("1", 2000): "at most 1024 bytes", "%": "the body must be a form",
		} {
			w := post(h, secret, body)
			require.Equal(t, http.StatusBadRequest, w.Code, body)
			require.Contains(t, w.Body.String(), want)
		}
		synctest.Wait()
		require.Empty(t, ended)

		w := post(h, secret, "id=1", "Origin", "http://localhost", "Sec-Fetch-Site", "same-origin")
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		var row Connection
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &row))
		require.EqualValues(t, 1, row.ID)
		require.Equal(t, "local", row.Reason)
		require.Equal(t, "leaving", row.State)
		synctest.Wait()
		require.Equal(t, map[any]keepalive.Reason{first: keepalive.ReasonLocal}, ended)

		// A new connection of the same peer is another one.
		again, _ := connect(t, k, from)
		w = post(h, secret, "id=1")
		require.Equal(t, http.StatusNotFound, w.Code)
		require.Contains(t, w.Body.String(), "connection 1 is not open: it ended at ")
		require.Contains(t, w.Body.String(), "reason local")
		require.Equal(t, "debughttp: connection 99 is not open\n", post(h, secret, "id=99").Body.String())
		require.True(t, keepalive.Touch(again))
		require.True(t, keepalive.Touch(second))
		require.True(t, listed(t, h, "").CanClose)

		r := httptest.NewRequest(http.MethodDelete, "/debug/wheel", nil)
		r.RemoteAddr, r.Host = local, "localhost"
		require.Equal(t, "GET, HEAD, POST", ask(h, r).Header().Get("Allow"))
	})
}

func TestWithoutATokenNobodyCloses(t *testing.T) {
	k := newKeeper(t, keepalive.Config{})
	h := newHandler(t, k, Config{})
	connectMany(t, k, 1)
	for _, token := range []string{"", " ", "Bearer"} {
		require.Equal(t, http.StatusMethodNotAllowed, post(h, token, "id=1").Code)
	}
	require.False(t, listed(t, h, "").CanClose)
	_, err := New(k, Config{CloseToken: "too short"})
	require.ErrorIs(t, err, ErrArgument)
	require.ErrorContains(t, err, "CloseToken has 9 bytes, must have at least 16")
	require.NotContains(t, err.Error(), "too short")
}

// Looks go on one at a time, with a rest after each. The others wait, but not too many of them.
func TestLooksTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLooks()
		var running, most, done, busy int
		var mu sync.Mutex
		begin := time.Now()
		for range maxWaiting + 5 {
			go func() {
				err := l.do(t.Context(), func() {
					mu.Lock()
					running++
					most = max(most, running)
					mu.Unlock()
					time.Sleep(time.Second)
					mu.Lock()
					running--
					mu.Unlock()
				})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					done++
				} else {
					require.ErrorIs(t, err, errBusy)
					busy++
				}
			}()
		}
		time.Sleep(time.Duration(maxWaiting)*4*time.Second - time.Second)
		synctest.Wait()
		require.Equal(t, []int{1, maxWaiting, 5}, []int{most, done, busy})
		require.Equal(t, time.Duration(maxWaiting)*4*time.Second-time.Second, time.Since(begin))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		require.ErrorIs(t, l.do(ctx, func() {}), context.DeadlineExceeded, "the rest is not over")
		ended := make(chan error)
		go func() { ended <- l.do(t.Context(), func() {}) }()
		synctest.Wait()
		l.close()
		l.close()
		require.ErrorIs(t, <-ended, errClosed)
		require.ErrorIs(t, l.do(t.Context(), func() {}), errClosed)
	})
}

// A look that took a minute has waited for a processor. A page that asks meanwhile still has its answer in time.
func TestRestAfterALongLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLooks()
		require.NoError(t, l.do(t.Context(), func() { time.Sleep(time.Minute) }))
		begin := time.Now()
		require.NoError(t, l.do(t.Context(), func() {}))
		require.Equal(t, maxRest, time.Since(begin))
	})
}

// A page of very many is as exact as one of a few, and takes a moment.
func TestAPageOfVeryMany(t *testing.T) {
	k := newKeeper(t, keepalive.Config{Timeout: time.Hour})
	h := newHandler(t, k, Config{})
	all := connectMany(t, k, 100_000)
	l := listed(t, h, "sort=addr&limit=1000&order=desc")
	require.Equal(t, len(all), l.Total)
	require.Len(t, l.Connections, 1000)
	require.True(t, slices.IsSortedFunc(l.Connections, func(a, b Connection) int { return cmp.Compare(b.ID, a.ID) }))
	require.Equal(t, fmt.Sprintf("10.1.134.159:%d", 1024+99_999%60_000), l.Connections[0].Addr)
}
