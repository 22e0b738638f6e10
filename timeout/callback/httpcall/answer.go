package httpcall

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
)

const (
	// headBytes is how much of a body or a location an error shows.
	headBytes = 200

	// drainTime bounds the wait for the body of an answer. The result is known by then; reading
	// on only serves to use the connection again.
	drainTime = time.Second
)

// errOfAnswer returns the error of an answer, or nil for a success. header is the request's,
// final the callback's.
func (c *Caller) errOfAnswer(resp *http.Response, head []byte, header http.Header, final []int) error {
	status := resp.StatusCode
	switch {
	case status == http.StatusAccepted && prefersAsync(header):
		return timeout.ErrAccepted
	case status >= 200 && status < 300:
		return nil
	}
	err := textOfAnswer(resp, head)
	switch {
	case status == http.StatusTooManyRequests:
		err = timeout.Uncounted(err)
	case status < 500 && status != http.StatusRequestTimeout:
		err = timeout.Answered(err) // the host lives
	}
	if status >= 300 && status < 400 || status == http.StatusGone || slices.Contains(final, status) {
		return timeout.Permanent(err)
	}
	if after, has := retryAfter(resp.Header, time.Now()); has {
		return timeout.RetryAfter(err, min(after, c.cfg.MaxRetryAfter))
	}
	return err
}

func textOfAnswer(resp *http.Response, head []byte) error {
	text := fmt.Sprintf("answer %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	if location := resp.Header.Get("Location"); location != "" {
		text += fmt.Sprintf(" to %.*q", headBytes, timeout.Callback{Target: location}.Masked().Target)
	}
	if len(head) > 0 {
		text += fmt.Sprintf(": %q", head)
	}
	return errors.New(strings.TrimSpace(text))
}

// drain reads the body, as far as Config.MaxResponse and drainTime allow, and closes it. It
// returns the beginning of the body. cancel ends the request.
func (c *Caller) drain(resp *http.Response, cancel context.CancelFunc) []byte {
	body := resp.Body
	defer body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return nil // no request asks for it, and no context would end a read after it
	}
	defer time.AfterFunc(drainTime, cancel).Stop()
	head := make([]byte, min(headBytes, c.cfg.MaxResponse))
	n, err := io.ReadFull(body, head)
	if err == nil {
		// One byte more, to see the end of a body of exactly MaxResponse bytes.
		_, _ = io.CopyN(io.Discard, body, int64(c.cfg.MaxResponse-n)+1)
	}
	return head[:n]
}

// retryAfter returns the wait in the header Retry-After, if it is there and positive: seconds
// or a date (RFC 9110, section 10.2.3). A date is compared with the date of the answer if there
// is one, since the clocks of others may differ.
func retryAfter(header http.Header, now time.Time) (time.Duration, bool) {
	text := strings.TrimSpace(header.Get("Retry-After"))
	if strings.Trim(text, "0123456789") == "" { // also without the header
		return seconds(text)
	}
	until, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		now = date
	}
	after := until.Sub(now)
	return after, after > 0
}

// seconds reads any number of digits. More than 29 years are 29 years: nobody may ask for more.
func seconds(digits string) (time.Duration, bool) {
	const most = math.MaxInt64 / int64(time.Second) / 10
	n, _ := strconv.ParseInt(digits, 10, 64) // of too many digits it is the greatest number
	n = min(n, most)
	return time.Duration(n) * time.Second, n > 0
}
