package debughttp

import (
	"strings"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/pool"
)

// Settings is the Keeper's config in force, in the order of its fields. Zero, false and "" are
// off. For a function it says whether there is one.
type Settings struct {
	Timeout           float64 `json:"timeout_seconds"`
	Tick              float64 `json:"tick_seconds"`
	Activity          string  `json:"activity"`
	FirstMessage      float64 `json:"first_message_seconds"`
	ReadIdle          float64 `json:"read_idle_seconds"`
	WriteIdle         float64 `json:"write_idle_seconds"`
	Multiplier        float64 `json:"multiplier"`
	MinTimeout        float64 `json:"min_timeout_seconds"`
	MaxTimeout        float64 `json:"max_timeout_seconds"`
	Probe             bool    `json:"probe"`
	ProbeAfter        float64 `json:"probe_after_seconds"`
	ProbeTimeout      float64 `json:"probe_timeout_seconds"`
	ProbeCount        int     `json:"probe_count"`
	MaxAge            float64 `json:"max_age_seconds"`
	MaxAgeJitter      float64 `json:"max_age_jitter"`
	MaxAgeGrace       float64 `json:"max_age_grace_seconds"`
	MinBeat           float64 `json:"min_beat_seconds"`
	MinRate           int     `json:"min_rate_bytes_per_second"`
	Strikes           int     `json:"strikes"`
	MaxConns          int     `json:"max_conns"`
	Full              string  `json:"full"`
	EvictMinIdle      float64 `json:"evict_min_idle_seconds"`
	MaxPerKey         int     `json:"max_per_key"`
	Pressure          bool    `json:"pressure"`
	PressureLow       float64 `json:"pressure_low"`
	PressureHigh      float64 `json:"pressure_high"`
	PressureTimeout   float64 `json:"pressure_timeout_seconds"`
	OnIdle            bool    `json:"on_idle"`
	OnMaxAge          bool    `json:"on_max_age"`
	OnClose           bool    `json:"on_close"`
	Farewell          bool    `json:"farewell"`
	FarewellTimeout   float64 `json:"farewell_timeout_seconds"`
	CloseMode         string  `json:"close_mode"`
	MaxClosePerSecond int     `json:"max_close_per_second"`
	Advise            bool    `json:"advise"`
	DryRun            bool    `json:"dry_run"`
}

// settingsOf leaves the defaults of a policy zero while the policy is off.
func settingsOf(cfg keepalive.Config) Settings {
	s := Settings{
		Timeout:           cfg.Timeout.Seconds(),
		Tick:              cfg.Tick.Seconds(),
		Activity:          cfg.Activity.String(),
		FirstMessage:      cfg.FirstMessage.Seconds(),
		ReadIdle:          cfg.ReadIdle.Seconds(),
		WriteIdle:         cfg.WriteIdle.Seconds(),
		Multiplier:        cfg.Interval.Multiplier,
		MinTimeout:        cfg.Interval.Min.Seconds(),
		MaxTimeout:        cfg.Interval.Max.Seconds(),
		Probe:             cfg.Probe.Send != nil,
		MinBeat:           cfg.Rate.MinBeat.Seconds(),
		MinRate:           cfg.Rate.MinBytes,
		MaxConns:          cfg.Room.MaxConns,
		MaxPerKey:         cfg.Room.MaxPerKey,
		Pressure:          cfg.Room.Pressure.Used != nil,
		OnIdle:            cfg.OnIdle != nil,
		OnMaxAge:          cfg.Age.OnMax != nil,
		OnClose:           cfg.OnClose != nil,
		Farewell:          cfg.Closing.Farewell != nil,
		CloseMode:         cfg.Closing.Mode.String(),
		MaxClosePerSecond: cfg.Closing.MaxPerSecond,
		Advise:            cfg.Advise,
		DryRun:            cfg.Closing.DryRun,
	}
	if cfg.Probe.Send != nil {
		s.ProbeAfter, s.ProbeTimeout, s.ProbeCount = cfg.Probe.After.Seconds(), cfg.Probe.Timeout.Seconds(), cfg.Probe.Count
	}
	if cfg.Age.Max > 0 {
		s.MaxAge, s.MaxAgeGrace = cfg.Age.Max.Seconds(), cfg.Age.Grace.Seconds()
		s.MaxAgeJitter = max(cfg.Age.Jitter, 0) // it may be as negative as can be
	}
	if cfg.Rate.MinBeat > 0 || cfg.Rate.MinBytes > 0 {
		s.Strikes = cfg.Rate.Strikes
	}
	if cfg.Room.MaxConns > 0 {
		s.Full = cfg.Room.Full.String()
	}
	if cfg.Room.Full == pool.EvictIdlest {
		s.EvictMinIdle = cfg.Room.MinIdle.Seconds()
	}
	if cfg.Room.Pressure.Used != nil || cfg.Room.Pressure.Timeout > 0 {
		s.PressureLow, s.PressureHigh = cfg.Room.Pressure.Low, cfg.Room.Pressure.High
		s.PressureTimeout = cfg.Room.Pressure.Timeout.Seconds()
	}
	if cfg.Closing.Farewell != nil || cfg.Closing.Mode == keepalive.CloseHalf {
		s.FarewellTimeout = cfg.Closing.Timeout.Seconds()
	}
	return s
}

// textOf is the sentence about a reason, without the name of its package.
func textOf(r keepalive.Reason) string {
	return strings.TrimPrefix(r.Error(), "keepalive: ")
}
