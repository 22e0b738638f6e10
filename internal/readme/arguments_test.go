package readme

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/connpool"
	"github.com/heartwheel-go/heartwheel/debughttp"
	"github.com/heartwheel-go/heartwheel/heartbeat"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/pool"
	"github.com/heartwheel-go/heartwheel/server"
	"github.com/heartwheel-go/heartwheel/wheel"
)

func TestTheErrArgumentOfAnyPackageIsThatOfAnyOther(t *testing.T) {
	all := []error{
		wheel.ErrArgument, pool.ErrArgument, keepalive.ErrArgument, heartbeat.ErrArgument,
		connpool.ErrArgument, server.ErrArgument, debughttp.ErrArgument,
	}
	for _, a := range all {
		for _, b := range all {
			require.ErrorIs(t, a, b)
		}
	}
	require.NotErrorIs(t, wheel.ErrArgument, wheel.ErrClosed)
	require.NotErrorIs(t, wheel.ErrClosed, wheel.ErrArgument)
	require.False(t, errors.Is(nil, wheel.ErrArgument))
	require.EqualError(t, pool.ErrArgument, "pool: invalid argument")
}
