//go:build browser

package pictures

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"image"
	"image/png"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/debughttp"
	"github.com/heartwheel-go/heartwheel/internal/browsertest"
	"github.com/heartwheel-go/heartwheel/internal/browsertest/tab"
	"github.com/heartwheel-go/heartwheel/internal/process"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

var (
	out      = flag.String("out", "", "`directory` to write the pictures to; without it nothing is rendered")
	programs = flag.String("programs", "", "`directory` with timeoutd and the demo of a fleet, built")
)

func TestMain(m *testing.M) { tab.Main(m) }

// scene says that a test renders pictures. Scenes take a minute, most of which they wait.
func scene(t *testing.T) {
	if *out == "" {
		t.Skip("-out does not say where to keep pictures")
	}
}

func write(t *testing.T, name string, content []byte, limit int) {
	require.Less(t, len(content), limit, name)
	require.NoError(t, os.WriteFile(filepath.Join(*out, name), content, 0o644))
}

// keep writes a picture of the page, from an element on.
func keep(t *testing.T, b *tab.Tab, name, scheme string, width, height int64, from string) {
	t.Helper()
	b.Dress(scheme, width, height)
	tab.Eval[bool](b, fmt.Sprintf(`(scrollTo(0, document.querySelector(%q).getBoundingClientRect().top + scrollY - 20), true)`, from))
	pixels, err := decode(b.Picture(2 * time.Second))
	require.NoError(t, err)
	var small bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, reduce([]*image.RGBA{pixels})[0]))
	write(t, name, small.Bytes(), 300_000)
}

// watch serves the debug page of a Keeper.
func watch(t *testing.T, k *keepalive.Keeper, cfg debughttp.Config) (url string) {
	page, err := debughttp.New(k, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { page.Close() })
	s := httptest.NewServer(page)
	t.Cleanup(s.Close)
	return s.URL + "/debug/wheel"
}

// The wheel, its latest closes and their rate are what the moving pictures have room for.
const closeup = `
	header, footer, #notices, .tiles, .readout, .scale, .levels, .wide, .table-card:not(:has(#recent)), .chart:not(#chart-closed), #legend,
	#recent :is(th, td):nth-child(4), .chart text:nth-child(odd of [text-anchor=middle]) { display: none; }
	body { padding: 0; } main { grid-template: 180px 292px / 468px 320px; gap: 12px; }
	.card.card { grid-column: 2; } .card.wheel-card { grid-area: 1 / 1 / 3 / 2; } .card, .scroll { overflow: hidden; }`

// The wheel while clients fall silent one by one, for a turn of its hand.
func TestTheMovingWheel(t *testing.T) {
	scene(t)
	const tick, turn = 8 * time.Millisecond, 1024 * 8 * time.Millisecond
	k, err := keepalive.New(keepalive.Config{Timeout: 6 * time.Second, Tick: tick})
	require.NoError(t, err)
	t.Cleanup(func() { k.Close() })
	silent(t, k, 800)
	b := tab.Open(t, watch(t, k, debughttp.Config{Name: "gateway"}), 800, 484)
	tab.Eval[bool](b, "(() => { const s = new CSSStyleSheet(); s.replaceSync(`"+closeup+"`); document.adoptedStyleSheets = [s]; return true; })()")
	b.Choose("#interval", "500")
	b.Until(`document.body.dataset.drawn >= 50`)
	for name, scheme := range map[string]string{"wheel.png": "dark", "wheel-light.png": "light"} {
		b.Dress(scheme, 800, 484)
		time.Sleep(2 * time.Second)
		shots, at, longest := record(t, b, turn)
		for try := 1; longest > 250*time.Millisecond && try < 5; try++ { // a busy machine
			if others, then, gap := record(t, b, turn); gap < longest {
				shots, at, longest = others, then, gap
			}
		}
		var pictures []*image.RGBA
		for _, shot := range shots {
			picture, err := decode(shot)
			require.NoError(t, err)
			pictures = append(pictures, picture)
		}
		animated, err := moving(reduce(pictures), at, turn)
		require.NoError(t, err)
		t.Logf("%s: %d frames, the longest for %v", name, len(pictures), longest)
		write(t, name, animated, 1_000_000)
	}
}

// record takes pictures of the page for a time, and says when they were taken and for how long none was.
func record(t *testing.T, b *tab.Tab, d time.Duration) (shots [][]byte, at []time.Duration, longest time.Duration) {
	every := time.NewTicker(100 * time.Millisecond)
	defer every.Stop()
	begin, last := time.Now(), time.Duration(0)
	for now := last; now < d; now = time.Since(begin) {
		longest, last = max(longest, now-last), now
		shot, err := chromedp.Call(b.Context(), page.CaptureScreenshot, page.CaptureScreenshotParams{OptimizeForSpeed: new(true)})
		require.NoError(t, err)
		shots, at = append(shots, shot.Data), append(at, now)
		<-every.C
	}
	return shots, at, longest
}

// silent starts a server and so many clients. They speak now and then, fall silent, are closed, and come again.
func silent(t *testing.T, k *keepalive.Keeper, clients int) {
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln := k.Listener(inner)
	context.AfterFunc(ctx, func() { ln.Close() })
	running.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			running.Go(func() { defer conn.Close(); _, _ = io.Copy(io.Discard, conn) })
		}
	})
	for i := range clients {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 10, byte(i/250), byte(1+i%250))}}
		running.Go(func() {
			for time.Sleep(rand.N(time.Second)); ctx.Err() == nil; time.Sleep(rand.N(2 * time.Second)) {
				conn, err := dialer.DialContext(ctx, "tcp", inner.Addr().String())
				if err != nil {
					continue
				}
				for rand.IntN(180) > 0 && ctx.Err() == nil {
					_, _ = conn.Write([]byte("."))
					time.Sleep(300*time.Millisecond + rand.N(1200*time.Millisecond))
				}
				end := context.AfterFunc(ctx, func() { conn.Close() })
				_, _ = io.Copy(io.Discard, conn) // until the server closes it
				end()
				conn.Close()
			}
		})
	}
}

// The debug page and its connections, with all kinds of clients, at twice the pace of the world.
func TestTheDebugPage(t *testing.T) {
	scene(t)
	const conns, pace = 2400, .5
	load, err := browsertest.Start(conns, pace)
	require.NoError(t, err)
	t.Cleanup(load.Close)
	url := watch(t, load.Keeper, debughttp.Config{Name: "gateway", CloseToken: strings.Repeat("x", 16), Label: func(conn any) string {
		ip := conn.(net.Conn).RemoteAddr().(*net.TCPAddr).IP.To4()
		return fmt.Sprintf("sensor-%04d", int(ip[2])*250+int(ip[3])-1)
	}})
	require.Eventually(t, func() bool { return load.Keeper.Len() > conns*97/100 }, tab.Eternal, 50*time.Millisecond)
	b := tab.Open(t, url, 1440, 1060)
	b.Until(`document.body.dataset.drawn >= 30`)
	require.NoError(t, load.Keeper.Update(browsertest.Probing(conns, pace)))
	for _, points := range []int{50, 75} {
		b.Until(fmt.Sprintf(`document.body.dataset.drawn >= %d`, points))
	}
	keep(t, b, "debug-page.png", "dark", 1440, 1060, "header")
	keep(t, b, "debug-page-light.png", "light", 1440, 1060, "header")
	keep(t, b, "debug-page-lower.png", "light", 1560, 1060, ".card.wide")
	keep(t, b, "debug-page-phone.png", "dark", 390, 1180, "header")
	b.Do(chromedp.Navigate(url + "?view=connections&label=sensor-07&sort=left"))
	b.Until(`document.body.dataset.drawn >= 2 && document.querySelectorAll("#rows tbody tr").length > 50`)
	keep(t, b, "connections.png", "light", 1280, 860, "header")
	keep(t, b, "connections-phone.png", "dark", 390, 844, "header")
}

// start starts one of the programs until the end of the test, and returns what a pattern matches in its output,
// once it has matched.
func start(t *testing.T, program string, args ...string) (await func(pattern string) string) {
	var mu sync.Mutex
	var said strings.Builder
	cmd := exec.Command(filepath.Join(*programs, program), args...)
	cmd.Dir = *programs
	cmd.Stdout = &process.Lines{Each: func(line []byte) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(&said, "%s\n", line)
	}}
	cmd.Stderr = cmd.Stdout
	p, err := process.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Finish(20 * time.Second) })
	return func(pattern string) (found string) {
		require.Eventually(t, func() bool {
			mu.Lock()
			defer mu.Unlock()
			found = regexp.MustCompile(pattern).FindString(said.String())
			return found != ""
		}, 2*tab.Eternal, 50*time.Millisecond, pattern)
		return found
	}
}

// The page of timeoutd, which calls a shop.
func TestTimeoutd(t *testing.T) {
	scene(t)
	t.Parallel()
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(rand.N(8 * time.Millisecond))
		if r.URL.Path == "/payments" && rand.IntN(12) == 0 {
			http.Error(w, "no such account", http.StatusUnprocessableEntity)
		}
	}))
	t.Cleanup(shop.Close)
	url := start(t, "timeoutd", "-sqlite", "tasks.db", "-addr", "127.0.0.1:0", "-node", "node-1", "-callback-allow", "127.0.0.0/8")(`http://127\.0\.0\.1:[1-9]\d*`)
	ask := func(method, path, body string) error {
		r, err := http.NewRequestWithContext(t.Context(), method, url+"/v1/"+path, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err == nil && answer.StatusCode >= 300 {
			err = fmt.Errorf("%s: %s", answer.Status, text)
		}
		return err
	}
	for topic, settings := range map[string]string{
		"orders":     `{"slots":32,"retain":"1m","callback":{"kind":"http","target":"` + shop.URL + `/orders"}}`,
		"payments":   `{"retries":-1,"retain":"1m","callback":{"kind":"http","target":"` + shop.URL + `/payments","final":[422]}}`,
		"mail":       `{"paused":true,"callback":{"kind":"http","target":"` + shop.URL + `/mail"}}`,
		"thumbnails": `{"pull":true}`,
	} {
		require.NoError(t, ask("PUT", "topics/"+topic, settings))
	}
	start(t, "timeoutd", "work", "thumbnails", "-url", url, "-exec", "sleep 0.1")
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	running.Go(func() {
		for i := 0; t.Context().Err() == nil; i++ {
			var tasks []string
			for n, topic := range []string{"orders", "orders", "orders", "payments", "thumbnails", "mail"} {
				if n < 4 || i%(30*(n-3)) == 0 {
					tasks = append(tasks, fmt.Sprintf(`{"topic":%q,"id":"%d","after":"%dms"}`, topic, i*6+n, rand.IntN(20_000)+n/5*3_600_000))
				}
			}
			_ = ask("POST", "tasks/set", `{"tasks":[`+strings.Join(tasks, ",")+`]}`)
			time.Sleep(rand.N(60 * time.Millisecond))
		}
	})
	b := tab.Open(t, url+"/", 1560, 1050)
	b.Until(`document.body.dataset.drawn >= 45`)
	time.Sleep(25 * time.Second)
	keep(t, b, "timeoutd.png", "dark", 1560, 1050, "header")
	keep(t, b, "timeoutd-light.png", "light", 1560, 1050, "header")
}

// The page of the demo, when its story has been told.
func TestTheFleet(t *testing.T) {
	scene(t)
	t.Parallel()
	await := start(t, "fleet", "-stay")
	b := tab.Open(t, await(`http://127\.0\.0\.1:[1-9]\d*/`), 1360, 940)
	await(`verdict pass`)
	keep(t, b, "fleet.png", "dark", 1360, 940, "header")
	keep(t, b, "fleet-light.png", "light", 1360, 940, "header")
}

func TestTheChart(t *testing.T) {
	scene(t)
	drawn, err := chart("../../..")
	require.NoError(t, err)
	write(t, "benchmarks.svg", []byte(drawn), 20_000)
}
