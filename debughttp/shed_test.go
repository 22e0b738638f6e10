package debughttp

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func TestConnectionsAreShedWithTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, keepalive.Config{Timeout: time.Hour})
		defer k.Close()
		h := newHandler(t, k, Config{CloseToken: secret})
		for range 10 {
			connect(t, k, addr("192.0.2.1:1"))
		}
		require.Equal(t, http.StatusForbidden, post(h, "", "shed=3&per_second=1").Code)
		for body, want := range map[string]string{
			"shed=":                            `shed "", must be a number from 1`,
			"shed=0&per_second=1":              `shed "0", must be a number from 1 to`,
			"shed=-1&per_second=1":             `shed "-1", must be a number from 1 to`,
			"shed=0.5&per_second=1":            `shed "0.5", must be a number from 1 to`,
			"shed=3":                           `per_second "", must be there, too`,
			"shed=3&per_second=0":              `per_second "0", must be a number from 1 to 1000000000`,
			"shed=3&per_second=1&order=newest": `order "newest", must be one of oldest, random`,
		} {
			w := post(h, secret, body)
			require.Equal(t, http.StatusBadRequest, w.Code, body)
			require.Contains(t, w.Body.String(), want)
		}
		require.Equal(t, 10, k.Len())

		begun := time.Now()
		w := post(h, secret, "shed=3&per_second=1&order=random")
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.Equal(t, `{"shed":3}`, w.Body.String())
		require.GreaterOrEqual(t, time.Since(begun), 2*time.Second)
		require.EqualValues(t, 3, see(t, h).Connections.Closed["shed"])

		// If the client goes, the rest stays.
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/debug/wheel", strings.NewReader("shed=5&per_second=1"))
		r.RemoteAddr, r.Host = local, "localhost"
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Authorization", "Bearer "+secret)
		require.Equal(t, http.StatusServiceUnavailable, ask(h, r).Code)
		require.Equal(t, 5, k.Len())

		drained := make(chan error)
		go func() { drained <- k.Drain(t.Context(), time.Minute) }()
		time.Sleep(time.Second)
		w = post(h, secret, "shed=5&per_second=1")
		require.Equal(t, http.StatusConflict, w.Code)
		require.Contains(t, w.Body.String(), "server is shutting down: 0 were told to leave")
		require.NoError(t, <-drained)
	})
}
