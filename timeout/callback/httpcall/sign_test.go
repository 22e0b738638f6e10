package httpcall

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/callback"
)

func TestAllSecretsSignSoThatTheyCanBeRotated(t *testing.T) {
	older, newer, strange := []byte(strings.Repeat("o", 24)), []byte(strings.Repeat("n", 64)), []byte(strings.Repeat("x", 24))
	now := time.Unix(1_700_000_000, 0)
	h, body := http.Header{}, []byte("body")
	sign(h, "orders/1:2", now, body, [][]byte{newer, older})
	require.Equal(t, 2, strings.Count(h.Get(HeaderWebhookSignature), "v1,"))
	verify := func(h http.Header, body string, at time.Time, secrets ...[]byte) error {
		return Verify(h, []byte(body), at, time.Minute, secrets...)
	}
	require.NoError(t, verify(h, "body", now, older))
	require.NoError(t, verify(h, "body", now.Add(time.Minute), newer))
	require.NoError(t, verify(h, "body", now.Add(-time.Minute), strange, newer))
	require.ErrorIs(t, verify(h, "body", now, strange), ErrSignature)
	require.ErrorIs(t, verify(h, "body", now), ErrSignature)
	require.ErrorIs(t, verify(h, "Body", now, older), ErrSignature)
	require.ErrorIs(t, verify(h, "body", now.Add(61*time.Second), older), ErrSignature)
	require.ErrorIs(t, verify(h, "body", now.Add(-61*time.Second), older), ErrSignature)
	for name, value := range map[string]string{
		HeaderWebhookID: "orders/1:3", HeaderWebhookTimestamp: "1700000001", HeaderWebhookSignature: "v1,AAAA v2,x nothing",
	} {
		changed := h.Clone()
		changed.Set(name, value)
		require.ErrorIs(t, verify(changed, "body", now, older, newer), ErrSignature, name)
		changed.Del(name)
		require.ErrorIs(t, verify(changed, "body", now, older, newer), ErrSignature, name)
	}
	foreign := h.Clone()
	foreign.Set(HeaderWebhookSignature, "v1a,AAAA "+h.Get(HeaderWebhookSignature))
	require.NoError(t, verify(foreign, "body", now, older), "signatures of other kinds may be there")
	sign(h, "orders/1:2", now, body, [][]byte{nil})
	require.ErrorIs(t, verify(h, "body", now, nil), ErrSignature, "a setting that was forgotten lets nobody in")
}

// The signature of one task's call is none of another's: targets know tasks by the key.
func TestACallUnderAnotherKeyIsNotSigned(t *testing.T) {
	secret := []byte(strings.Repeat("o", 24))
	now := time.Unix(1_700_000_000, 0)
	task := timeout.Task{Topic: "orders", ID: "1", Version: 2}
	h := http.Header{}
	for _, field := range callback.New(t.Context(), task).Headers() {
		h.Set(field.Name, field.Value)
	}
	sign(h, callback.Key(task), now, nil, [][]byte{secret})
	require.NoError(t, Verify(h, nil, now, time.Minute, secret))
	_, err := callback.Parse(h.Get)
	require.NoError(t, err)

	h.Set(callback.HeaderID, "3")
	_, err = callback.Parse(h.Get)
	require.ErrorContains(t, err, `header Idempotency-Key "orders/1:2", must be "orders/3:2"`)
	h.Set(callback.HeaderKey, "orders/3:2")
	_, err = callback.Parse(h.Get)
	require.NoError(t, err)
	require.ErrorIs(t, Verify(h, nil, now, time.Minute, secret), ErrSignature)
}

func TestWithoutASecretNothingIsSigned(t *testing.T) {
	h := http.Header{}
	sign(h, "id", time.Now(), nil, nil)
	require.Empty(t, h)
}

func TestSecretsAreReadAsTheSpecificationWritesThem(t *testing.T) {
	raw := []byte(strings.Repeat("\xfb", 25))
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding} {
		secret, err := ParseSecret("whsec_" + encoding.EncodeToString(raw))
		require.NoError(t, err)
		require.Equal(t, raw, secret)
	}
	for _, bad := range []string{"", "whsec_", "hunter2hunter2hunter2hunter2", "whsec_hunter2!", "whsec_" + base64.StdEncoding.EncodeToString(raw[:23])} {
		_, err := ParseSecret(bad)
		require.ErrorIs(t, err, timeout.ErrArgument)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestAnyNumberOfSecondsCanBeAskedFor(t *testing.T) {
	const most = 922_337_203 * time.Second
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "00": 0, "007": 7 * time.Second, "922337202": most - time.Second, "922337203": most, "922337204": most,
		"9223372036854775807": most, "9223372036854775808": most, "00000000000000000000000000001": time.Second, "18446744073709551617": most,
	} {
		after, has := retryAfter(http.Header{"Retry-After": {text}}, time.Now())
		require.Equal(t, want, after, text)
		require.Equal(t, want > 0, has, text)
	}
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("120", "")
	f.Add("Wed, 21 Oct 2015 07:28:30 GMT", "Wed, 21 Oct 2015 07:28:00 GMT")
	f.Add("99999999999999999999999999", "")
	f.Add("-1", "x")
	f.Add("Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT")
	f.Fuzz(func(t *testing.T, text, date string) {
		after, has := retryAfter(http.Header{"Retry-After": {text}, "Date": {date}}, time.Unix(1_700_000_000, 0))
		require.Equal(t, has, after > 0, "%v", after)
		if n, err := strconv.ParseUint(text, 10, 24); err == nil {
			require.Equal(t, time.Duration(n)*time.Second, after)
		}
	})
}
