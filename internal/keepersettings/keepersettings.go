// Package keepersettings is the table of the settings of keepalive.Config. Flags, config files, errors and
// the debug page have them from here.
package keepersettings

import (
	"iter"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/settings"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

// Groups returns the settings of c. They read and write its fields. A setting for programs only is a
// [settings.Fact]. The help is in the words of package server.
func Groups(c *keepalive.Config) []settings.Group {
	probes, rates := c.Probe.Send != nil, c.Rate.MinBeat > 0 || c.Rate.MinBytes > 0
	farewells := c.Closing.Farewell != nil || c.Closing.Mode == keepalive.CloseHalf
	pressed := c.Room.Pressure.Used != nil || c.Room.Pressure.Timeout > 0
	return []settings.Group{
		{Title: "Silence", Settings: []settings.Setting{
			{Name: "timeout", Value: settings.Duration(&c.Timeout, time.Millisecond), Arg: "duration", Help: "how long a connection may be without a whole line"},
			{Name: "tick", Value: settings.Duration(&c.Tick, 0), Fixed: true, Arg: "duration", Help: "how precise that is; a connection is closed two ticks late at most (0: 10ms, less for a timeout under 100ms, and an idle server may be 100ms later)"},
			{Name: "activity", Value: settings.Fact(c.Activity)},
			{Name: "first-message", Value: settings.Duration(&c.FirstMessage, 0), Arg: "duration", Help: "how long until the first line (0: as the timeout)"},
			{Name: "read-idle", Value: settings.Fact(c.ReadIdle)},
			{Name: "write-idle", Value: settings.Fact(c.WriteIdle)},
			{Name: "write-stall", Value: settings.Duration(&c.WriteStall, 0), Arg: "duration", Help: "how long answers may wait for a peer that takes none of their bytes (0: for ever)"},
			{Name: "max-unsent", Value: settings.Fact(c.MaxUnsent)},
			{Name: "on-idle", Value: settings.Fact(c.OnIdle != nil)},
			{Name: "multiplier", Field: "Interval.Multiplier", Value: settings.Fact(c.Interval.Multiplier)},
			{Name: "min-timeout", Field: "Interval.Min", Value: settings.Fact(c.Interval.Min)},
			{Name: "max-timeout", Field: "Interval.Max", Value: settings.Fact(c.Interval.Max)},
			{Name: "probe", Field: "Probe.Send", Value: settings.Fact(probes)},
			{Name: "probe-after", Field: "Probe.After", Value: settings.Duration(&c.Probe.After, 0), Off: !probes, Arg: "duration", Help: "silence after which a peer is sent PING (0: never, or half of the timeout if one of the next two is set)"},
			{Name: "probe-timeout", Field: "Probe.Timeout", Value: settings.Duration(&c.Probe.Timeout, 0), Off: !probes, Arg: "duration", Help: "how long it may take to answer (0: what is left of the timeout)"},
			{Name: "probe-count", Field: "Probe.Count", Value: settings.Number(&c.Probe.Count), Off: !probes, Arg: "number", Help: "how many of them may go unanswered (0: 1)"},
			{Name: "advise", Value: settings.Toggle(&c.Advise), Help: "find out a good timeout, and log it at the end"},
			{Name: "dry-run", Field: "Closing.DryRun", Value: settings.Toggle(&c.Closing.DryRun), Help: "close nobody, only count"},
		}},
		{Title: "Age and rates", Settings: []settings.Setting{
			{Name: "max-age", Field: "Age.Max", Value: settings.Duration(&c.Age.Max, 0), Arg: "duration", Help: "how old a connection may become (0: any age)"},
			{Name: "max-age-jitter", Field: "Age.Jitter", Value: settings.Share(&c.Age.Jitter), Off: c.Age.Max == 0, Arg: "share", Help: "by up to how much of that earlier (0: 0.1; negative: none)"},
			{Name: "max-age-grace", Field: "Age.Grace", Value: settings.Duration(&c.Age.Grace, 0), Arg: "duration", Help: "how much longer after GOAWAY (0: no GOAWAY)"},
			{Name: "checks", Value: settings.Fact(len(c.Checks))},
			{Name: "on-max-age", Field: "Age.OnMax", Value: settings.Fact(c.Age.OnMax != nil)},
			{Name: "min-beat", Field: "Rate.MinBeat", Value: settings.Duration(&c.Rate.MinBeat, 0), Arg: "duration", Help: "the shortest time between two lines, on average (0: any)"},
			{Name: "min-rate", Field: "Rate.MinBytes", Value: settings.Number(&c.Rate.MinBytes), Unit: "bytes_per_second", Arg: "bytes", Help: "per second, the least from a peer that sends anything (0: any)"},
			{Name: "strikes", Field: "Rate.Strikes", Value: settings.Number(&c.Rate.Strikes), Off: !rates, Arg: "number", Help: "after how many times in a row a rule is broken a connection is closed (0: 3)"},
		}},
		{Title: "Room", Settings: []settings.Setting{
			{Name: "max-conns", Field: "Room.MaxConns", Value: settings.Number(&c.Room.MaxConns), Arg: "number", Help: "connections at a time (0: as many as the descriptor limit has room for)"},
			{Name: "max-per-key", Field: "Room.MaxPerKey", Value: settings.Number(&c.Room.MaxPerKey), Arg: "number", Help: "connections of an IPv4 address or a /64 of IPv6 (0: any number)"},
			{Name: "max-per-user", Field: "Room.MaxPerUser", Value: settings.Fact(c.Room.MaxPerUser)},
			{Name: "full", Field: "Room.Full", Value: settings.Choice(&c.Room.Full, keepalive.FullReject, keepalive.FullWait, keepalive.FullEvict), Fixed: true, Off: c.Room.MaxConns == 0 && c.Room.MaxPerUser == 0, Arg: "reject|evict", Help: "what happens to one more: it is refused, or the idlest gives way"},
			{Name: "evict-min-idle", Field: "Room.MinIdle", Value: settings.Duration(&c.Room.MinIdle, 0), Fixed: true, Arg: "duration", Help: "how long the idlest must have been silent for that (0: 1s, or the timeout if that is less)"},
			{Name: "pressure", Field: "Room.Pressure.Used", Value: settings.Fact(c.Room.Pressure.Used != nil)},
			{Name: "pressure-timeout", Field: "Room.Pressure.Timeout", Value: settings.Duration(&c.Room.Pressure.Timeout, 0), Arg: "duration", Help: "what the timeout becomes as descriptors run out (0: it stays)"},
			{Name: "pressure-low", Field: "Room.Pressure.Low", Value: settings.Share(&c.Room.Pressure.Low), Off: !pressed, Arg: "share", Help: "of the descriptors, from where on (0: 0.85)"},
			{Name: "pressure-high", Field: "Room.Pressure.High", Value: settings.Share(&c.Room.Pressure.High), Off: !pressed, Arg: "share", Help: "and where it is reached (0: 0.95)"},
		}},
		{Title: "Closing", Settings: []settings.Setting{
			{Name: "close-mode", Field: "Closing.Mode", Value: settings.Choice(&c.Closing.Mode, keepalive.CloseGraceful, keepalive.CloseHalf, keepalive.CloseReset), Arg: "graceful|half|reset", Help: "how; half waits until the peer has read the farewell"},
			{Name: "farewell", Field: "Closing.Farewell", Value: settings.Fact(c.Closing.Farewell != nil)},
			{Name: "farewell-timeout", Field: "Closing.Timeout", Value: settings.Duration(&c.Closing.Timeout, 0), Off: !farewells, Arg: "duration", Help: "how long a farewell may take (0: 1s)"},
			{Name: "max-close-per-second", Field: "Closing.MaxPerSecond", Value: settings.Number(&c.Closing.MaxPerSecond), Arg: "number", Help: "for all but the end of the program (0: any number)"},
			{Name: "on-refuse", Value: settings.Fact(c.OnRefuse != nil)},
			{Name: "on-close", Value: settings.Fact(c.OnClose != nil)},
		}},
	}
}

// All goes through the settings of c.
func All(c *keepalive.Config) iter.Seq[settings.Setting] {
	return (&settings.Set{Groups: Groups(c)}).All
}
