package adaptertest

import (
	"runtime"
	"sync/atomic"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func failingTests() (all []test) {
	for name, config := range map[string]func(fail func(conn any)) keepalive.Config{
		"OnIdle": func(fail func(conn any)) keepalive.Config {
			return keepalive.Config{OnIdle: func(conn any, _ keepalive.Reason) keepalive.Verdict {
				fail(conn)
				return keepalive.Close
			}}
		},
		"OnClose": func(fail func(conn any)) keepalive.Config {
			return keepalive.Config{OnClose: func(conn any, _ keepalive.Reason) { fail(conn) }}
		},
		"Probe.Send": func(fail func(conn any)) keepalive.Config {
			return keepalive.Config{Probe: keepalive.Probing{Send: func(conn any) error {
				fail(conn)
				return nil
			}}}
		},
		"Age.OnMax": func(fail func(conn any)) keepalive.Config {
			return keepalive.Config{Timeout: eternal, Age: keepalive.Age{Max: timeout, Grace: timeout / 4, OnMax: fail}}
		},
		"Closing.Farewell": func(fail func(conn any)) keepalive.Config {
			return keepalive.Config{Closing: keepalive.Closing{Farewell: func(conn any, reason keepalive.Reason) []byte {
				fail(conn)
				return bye(conn, reason)
			}}}
		},
	} {
		all = append(
			all,
			test{name: "panic/" + name, run: func(r *rig) { failureHarmsNobody(r, config, 1, func() { panic("on purpose") }) }},
			test{name: "goexit/" + name, of: goexit, run: func(r *rig) { failureHarmsNobody(r, config, 0, runtime.Goexit) }},
		)
	}
	return all
}

// A function of the Config fails for one connection. Its end comes all the same,
// and other connections do not notice.
func failureHarmsNobody(r *rig, config func(fail func(conn any)) keepalive.Config, panics uint64, failure func()) {
	var failed atomic.Uint64
	cfg := config(func(conn any) {
		if r.nameOf(conn) == "bad" {
			failed.Add(1)
			failure()
		}
	})
	reason := keepalive.ReasonIdle
	switch {
	case cfg.Probe.Send != nil:
		reason = keepalive.ReasonNoAnswer
	case cfg.Age.Max > 0:
		reason = keepalive.ReasonMaxAge
	}
	r.serve(cfg)
	r.attempt(func() bool {
		bad, good := r.dialAs("bad"), r.dial()
		for _, c := range []*client{bad, good} {
			want := ""
			if cfg.Closing.Farewell != nil && c == good {
				want = "bye idle\n"
			}
			c.requireBytes(want)
			c.requireEnd(reason)
		}
		return failed.Load() > 0 // or it was called before the connection had its name
	})
	r.eventually(func() bool { return r.k.Stats().Panics == panics*failed.Load() }, "panics are counted")
	r.dial() // the server goes on
}
