package keepalive

import (
	"fmt"
	"math"
	"time"

	"github.com/heartwheel-go/heartwheel/pool"
)

// maxCount is the most probes and strikes that can be counted, by far.
const maxCount = 100

// Each of these returns an error that names the values of the fields and their limit.

func (cfg Config) checkSigns() error {
	for _, field := range []struct {
		name  string
		value time.Duration
	}{
		{"FirstMessage", cfg.FirstMessage},
		{"ReadIdle", cfg.ReadIdle},
		{"WriteIdle", cfg.WriteIdle},
		{"MinTimeout", cfg.MinTimeout},
		{"MaxTimeout", cfg.MaxTimeout},
		{"ProbeAfter", cfg.ProbeAfter},
		{"ProbeTimeout", cfg.ProbeTimeout},
		{"MaxAge", cfg.MaxAge},
		{"MaxAgeGrace", cfg.MaxAgeGrace},
		{"MinBeat", cfg.MinBeat},
		{"EvictMinIdle", cfg.EvictMinIdle},
		{"PressureTimeout", cfg.PressureTimeout},
		{"FarewellTimeout", cfg.FarewellTimeout},
	} {
		if field.value < 0 {
			return fmt.Errorf("%w: %s %v, must not be negative", ErrArgument, field.name, field.value)
		}
	}
	for _, field := range []struct {
		name  string
		value int
		most  int
	}{
		{"ProbeCount", cfg.ProbeCount, maxCount},
		{"MinRate", cfg.MinRate, math.MaxInt},
		{"Strikes", cfg.Strikes, maxCount},
		{"MaxConns", cfg.MaxConns, math.MaxInt},
		{"MaxPerKey", cfg.MaxPerKey, math.MaxInt},
		{"MaxClosePerSecond", cfg.MaxClosePerSecond, 1e9},
	} {
		switch {
		case field.value < 0:
			return fmt.Errorf("%w: %s %d, must not be negative", ErrArgument, field.name, field.value)
		case field.value > field.most:
			return fmt.Errorf("%w: %s %d, must be at most %d", ErrArgument, field.name, field.value, field.most)
		}
	}
	return nil
}

func (cfg Config) checkPolicies() error {
	switch {
	case !(cfg.Multiplier >= 1) || math.IsInf(cfg.Multiplier, 0): // also where it is not a number
		return fmt.Errorf("%w: Multiplier %v, must be at least 1", ErrArgument, cfg.Multiplier)
	case !(cfg.MaxAgeJitter < 1):
		return fmt.Errorf("%w: MaxAgeJitter %v, must be less than 1", ErrArgument, cfg.MaxAgeJitter)
	case cfg.MaxTimeout > 0 && cfg.MinTimeout > cfg.MaxTimeout:
		return fmt.Errorf("%w: MinTimeout %v is longer than MaxTimeout %v", ErrArgument, cfg.MinTimeout, cfg.MaxTimeout)
	case cfg.MaxAge == 0 && cfg.MaxAgeGrace > 0:
		return fmt.Errorf("%w: MaxAgeGrace %v without a MaxAge", ErrArgument, cfg.MaxAgeGrace)
	case cfg.MinBeat > 0 && cfg.Activity == ActivityKernel:
		return fmt.Errorf("%w: MinBeat %v with Activity %v, which counts no touches", ErrArgument, cfg.MinBeat, cfg.Activity)
	case cfg.Advise && cfg.Activity == ActivityKernel:
		return fmt.Errorf("%w: Advise with Activity %v, whose silences nobody sees begin", ErrArgument, cfg.Activity)
	case cfg.CloseMode < CloseGraceful || cfg.CloseMode > CloseReset:
		return fmt.Errorf("%w: CloseMode %d, must be %d to %d", ErrArgument, cfg.CloseMode, CloseGraceful, CloseReset)
	}
	return nil
}

func (cfg Config) checkProbes() error {
	if cfg.Probe == nil {
		if cfg.ProbeAfter > 0 || cfg.ProbeTimeout > 0 || cfg.ProbeCount > 0 {
			return fmt.Errorf("%w: ProbeAfter %v, ProbeTimeout %v, ProbeCount %d, and Probe is nil",
				ErrArgument, cfg.ProbeAfter, cfg.ProbeTimeout, cfg.ProbeCount)
		}
		return nil
	}
	if cfg.Activity == ActivityReadWrite {
		return fmt.Errorf("%w: Probe with Activity %v, for which the probe itself would be life", ErrArgument, cfg.Activity)
	}
	if cfg.ProbeAfter < cfg.Tick || cfg.ProbeTimeout < cfg.Tick {
		return fmt.Errorf("%w: ProbeAfter %v and ProbeTimeout %v, must be at least Tick %v",
			ErrArgument, cfg.ProbeAfter, cfg.ProbeTimeout, cfg.Tick)
	}
	if left := cfg.Timeout - cfg.ProbeAfter; left < 0 || cfg.ProbeTimeout > left/time.Duration(cfg.ProbeCount) {
		return fmt.Errorf("%w: ProbeAfter %v and %d times ProbeTimeout %v, must not be more than Timeout %v",
			ErrArgument, cfg.ProbeAfter, cfg.ProbeCount, cfg.ProbeTimeout, cfg.Timeout)
	}
	return nil
}

func (cfg Config) checkRoom() error {
	switch {
	case cfg.Full < pool.Reject || cfg.Full > pool.EvictIdlest:
		return fmt.Errorf("%w: Full %d, must be %d to %d", ErrArgument, cfg.Full, pool.Reject, pool.EvictIdlest)
	case cfg.Full != pool.Reject && cfg.MaxConns == 0:
		return fmt.Errorf("%w: Full %v without MaxConns", ErrArgument, cfg.Full)
	case cfg.Full != pool.EvictIdlest && cfg.EvictMinIdle > 0:
		return fmt.Errorf("%w: EvictMinIdle %v is for Full %v, not for %v",
			ErrArgument, cfg.EvictMinIdle, pool.EvictIdlest, cfg.Full)
	case cfg.PressureTimeout > cfg.Timeout:
		return fmt.Errorf("%w: PressureTimeout %v is longer than Timeout %v", ErrArgument, cfg.PressureTimeout, cfg.Timeout)
	case cfg.PressureTimeout > 0 && cfg.PressureTimeout < cfg.Tick:
		return fmt.Errorf("%w: PressureTimeout %v is shorter than Tick %v", ErrArgument, cfg.PressureTimeout, cfg.Tick)
	}
	if err := cfg.pressure().Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrArgument, err)
	}
	return nil
}

// pressure is the part of the config that says what pressure is.
func (cfg Config) pressure() pool.Pressure {
	return pool.Pressure{Of: cfg.Pressure, Low: cfg.PressureLow, High: cfg.PressureHigh}
}
