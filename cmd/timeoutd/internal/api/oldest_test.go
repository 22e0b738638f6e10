package api

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheOldestTransactionIsAMetricAsLongAsTheDatabaseTells(t *testing.T) {
	const name = "heartwheel_timeout_oldest_transaction_seconds"
	tell := func(age time.Duration, err error) func(context.Context) (time.Duration, error) {
		return func(context.Context) (time.Duration, error) { return age, err }
	}
	metrics := func(ask func(context.Context) (time.Duration, error)) string {
		return start(t, Config{OldestTransaction: ask}).ask(http.StatusOK, http.MethodGet, "/metrics", "")
	}
	require.Contains(t, metrics(tell(90*time.Minute, nil)), "\n"+name+" 5400\n")
	require.Contains(t, metrics(tell(0, nil)), "\n"+name+" 0\n")
	require.NotContains(t, metrics(tell(0, errors.New("no"))), name)
	require.NotContains(t, metrics(nil), name)
}
