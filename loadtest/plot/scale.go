package plot

import "math"

// scale is the place of a value on an axis: 0 is its beginning, 1 its end.
type scale struct {
	min, max float64
	log      bool
	ticks    []float64
}

const (
	someTicks = 5 // about

	// Beyond so many decades only every second, or third, has a tick.
	manyDecades = 5
)

// linear returns an axis with ticks at round values. Its ends are the ends of the values.
func linear(from, to float64, u Unit) scale {
	if !(to > from) {
		to = from + 1
	}
	s := scale{min: from, max: to}
	step := u.step((to - from) / someTicks)
	first := math.Ceil(from/step - 1e-9)
	for i := range 2 * someTicks {
		if tick := (first + float64(i)) * step; tick <= to+step*1e-9 {
			s.ticks = append(s.ticks, tick)
		}
	}
	return s
}

// round moves the ends of an axis outwards to round values.
func (s scale) round(u Unit) scale {
	step := u.step((s.max - s.min) / someTicks)
	return linear(math.Floor(s.min/step+1e-9)*step, math.Ceil(s.max/step-1e-9)*step, u)
}

// Round returns a round value not below the given one, or 1 instead of 0 or less.
func (u Unit) Round(v float64) float64 {
	if !(v >= 1/largest && v <= largest) {
		return 1
	}
	return u.step(v)
}

// step returns a round distance not below the given one.
func (u Unit) step(least float64) float64 {
	for _, step := range u.steps {
		if least >= u.steps[0] && step >= least {
			return step
		}
	}
	power := math.Pow(10, math.Floor(math.Log10(least)))
	for _, digit := range []float64{1, 2, 5} {
		if digit*power >= least*(1-1e-9) {
			return digit * power
		}
	}
	return 10 * power
}

// logarithmic returns an axis from and to 1, 2 or 5 times a power of ten.
func logarithmic(from, to float64) scale {
	s := scale{log: true, min: roundDown(from), max: roundUp(to)}
	if s.max <= s.min {
		s.max = s.min * 10
	}
	decades := math.Log10(s.max / s.min)
	first, last := int(math.Floor(math.Log10(s.min))), int(math.Ceil(math.Log10(s.max)))
	every := max(1, int(math.Ceil(decades/manyDecades)))
	for e := first; e <= last; e += every {
		for _, digit := range []float64{1, 2, 5} {
			tick := digit * math.Pow10(e)
			if (digit == 1 || decades <= 2) && tick >= s.min*(1-1e-9) && tick <= s.max*(1+1e-9) {
				s.ticks = append(s.ticks, tick)
			}
		}
	}
	return s
}

func roundDown(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, digit := range []float64{5, 2} {
		if digit*power <= v*(1+1e-9) {
			return digit * power
		}
	}
	return power
}

func roundUp(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, digit := range []float64{1, 2, 5} {
		if digit*power >= v*(1-1e-9) {
			return digit * power
		}
	}
	return 10 * power
}

func (s scale) at(v float64) float64 {
	if s.log {
		if v <= s.min {
			return 0
		}
		return math.Min(1, math.Log(v/s.min)/math.Log(s.max/s.min))
	}
	return math.Min(1, math.Max(0, (v-s.min)/(s.max-s.min)))
}
