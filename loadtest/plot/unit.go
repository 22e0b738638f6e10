package plot

import (
	"math"
	"strconv"
	"strings"
)

// Unit is the writing of an axis's values, and its round values.
type Unit struct {
	Write func(v float64) string
	steps []float64 // between ticks, if not 1, 2 and 5 times a power of ten
}

// The units: values are numbers, bytes, milliseconds, or seconds since the start.
var (
	Number       = Unit{Write: writeNumber}
	Bytes        = Unit{Write: writeBytes}
	Milliseconds = Unit{Write: writeMilliseconds}
	Elapsed      = Unit{Write: writeElapsed, steps: []float64{
		1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400,
	}}
)

// writeNumber writes thousands as k, and millions as M.
func writeNumber(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1e6:
		return digits(v/1e6) + "M"
	case a >= 1e4:
		return digits(v/1e3) + "k"
	default:
		return digits(v)
	}
}

func writeBytes(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1e9:
		return digits(v/1e9) + " GB"
	case a >= 1e6:
		return digits(v/1e6) + " MB"
	case a >= 1e3:
		return digits(v/1e3) + " kB"
	default:
		return digits(v) + " B"
	}
}

func writeMilliseconds(v float64) string {
	switch a := math.Abs(v); {
	case a >= 60_000:
		return digits(v/60_000) + " min"
	case a >= 1000:
		return digits(v/1000) + " s"
	case a >= 1 || a == 0:
		return digits(v) + " ms"
	default:
		return digits(v*1000) + " µs"
	}
}

func writeElapsed(v float64) string {
	const minute, hour = 60, 3600
	switch {
	case v < minute:
		return digits(v) + " s"
	case v < hour:
		return clock(v, minute, "m", 1, "s")
	default:
		return clock(v, hour, "h", minute, "m")
	}
}

func clock(v, big float64, bigName string, small float64, smallName string) string {
	text := digits(math.Floor(v/big)) + bigName
	if rest := math.Floor(math.Mod(v, big) / small); rest > 0 {
		text += digits(rest) + smallName
	}
	return text
}

// digits writes three significant digits, and all before the point.
func digits(v float64) string {
	a := math.Abs(v)
	decimals := 0
	switch {
	case a == 0:
		return "0"
	case a < 0.001:
		return strconv.FormatFloat(v, 'g', 2, 64)
	case a < 1:
		decimals = 3
	case a < 10:
		decimals = 2
	case a < 100:
		decimals = 1
	}
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if decimals > 0 {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}
