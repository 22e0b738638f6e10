package connpool

import (
	"context"
	"fmt"
	"math"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/wheel"
)

func TestImpossibleConfigsAreErrorsThatNameTheValue(t *testing.T) {
	dial := func(context.Context) (net.Conn, error) { return nil, net.ErrClosed }
	type config = Config[net.Conn]
	for want, cfg := range map[string]config{
		"Dial is nil":                                          {},
		"MaxOpen -1, must not be negative":                     {Dial: dial, MaxOpen: -1},
		"MaxIdle -2, must not be negative":                     {Dial: dial, MaxIdle: -2},
		"MinIdle -3, must not be negative":                     {Dial: dial, MinIdle: -3},
		"MinIdle 3 is more than MaxOpen 2":                     {Dial: dial, MinIdle: 3, MaxOpen: 2},
		"MinIdle 3 is more than MaxIdle 1":                     {Dial: dial, MinIdle: 3, MaxIdle: 1},
		"MaxAge -1ns, must not be negative":                    {Dial: dial, MaxAge: -1},
		"MaxAgeJitter 1, must be less than 1":                  {Dial: dial, MaxAgeJitter: 1},
		"MaxAgeJitter NaN, must be less than 1":                {Dial: dial, MaxAgeJitter: math.NaN()},
		"CheckAfter -1s, must not be negative":                 {Dial: dial, Check: Alive, CheckAfter: -time.Second},
		"CheckAfter 1s, and Check is nil":                      {Dial: dial, CheckAfter: time.Second},
		"LeakAfter -1ns, must not be negative":                 {Dial: dial, LeakAfter: -1},
		"OnLeak is set, and LeakAfter is 0":                    {Dial: dial, OnLeak: func(Leak[net.Conn]) {}},
		"CheckTimeout 1s, and both Check and CheckPut are nil": {Dial: dial, CheckTimeout: time.Second},
	} {
		_, err := New(cfg)
		require.ErrorIs(t, err, ErrArgument, want)
		require.ErrorContains(t, err, "connpool: invalid argument: "+want)
	}
	_, err := New(Config[int]{Dial: func(context.Context) (int, error) { return 1, nil }})
	require.ErrorIs(t, err, ErrArgument)
	require.ErrorContains(t, err, "Close is nil, and int has no method Close")
	_, err = NewGroup(wheel.Config{Tick: 1})
	require.ErrorIs(t, err, ErrArgument)
	require.ErrorIs(t, err, wheel.ErrArgument)
	require.ErrorContains(t, err, "Tick 1ns, must be at least 1ms")
}

func TestExtremeDurationsDoNotOverflow(t *testing.T) {
	dial := func(context.Context) (net.Conn, error) { c, _ := net.Pipe(); return c, nil }
	for _, cfg := range []Config[net.Conn]{
		{MaxIdleTime: 1, MaxAge: math.MaxInt64, MaxAgeJitter: 0.999999},
		{MaxIdleTime: math.MaxInt64 - 1, MaxAge: math.MaxInt64 - 1, MaxAgeJitter: -1},
		{MaxIdleTime: math.MaxInt64 - 1, MaxAge: 1, Check: Alive, CheckAfter: math.MaxInt64},
		{MaxIdleTime: -1, Check: Alive, CheckTimeout: math.MaxInt64},
		{MaxIdleTime: -2, LeakAfter: math.MaxInt64},
		{MaxIdleTime: -3, LeakAfter: math.MaxInt64 - 1},
		{MaxIdleTime: -4, LeakAfter: 1},
		{MaxIdleTime: -1, Check: Alive, CheckPut: Alive, CheckTimeout: math.MaxInt64 - 1},
		{MaxIdleTime: math.MaxInt64, MaxAge: math.MaxInt64, MaxAgeJitter: math.Inf(-1), DialTimeout: math.MaxInt64},
		{MaxOpen: math.MaxInt, MaxIdle: math.MaxInt, MinIdle: 1, MaxAgeJitter: 1e-300, MaxAge: 1},
	} {
		t.Run(fmt.Sprint(cfg.MaxIdleTime, cfg.MaxAge), func(t *testing.T) {
			cfg.Dial = dial
			p, err := New(cfg)
			require.NoError(t, err)
			for range 10 {
				l, err := p.Get(bg)
				require.NoError(t, err)
				require.NoError(t, l.Put())
			}
			require.NoError(t, p.Close())
		})
	}
}

func TestReasonsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Reasons() {
		require.NotEmpty(t, r.String())
		seen[r.String()] = true
	}
	require.Len(t, seen, int(reasons)-1)
	require.Equal(t, "Reason(0)", Reason(0).String())
	require.Equal(t, "Reason(200)", Reason(200).String())
}
