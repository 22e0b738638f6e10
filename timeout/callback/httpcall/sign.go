package httpcall

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/callback"
)

// The headers of Standard Webhooks 1.0.0, and the prefix of its secrets as text.
const (
	HeaderWebhookID        = "Webhook-Id"
	HeaderWebhookTimestamp = "Webhook-Timestamp"
	HeaderWebhookSignature = "Webhook-Signature"

	webhookPrefix = "Webhook-"
	secretPrefix  = "whsec_"
	version       = "v1," // of a signature with HMAC-SHA256
)

// How many bytes a secret can have, by the specification.
const (
	minSecret = 24
	maxSecret = 64
)

// ErrSignature says that a request has no valid signature of any of the secrets, or an old one.
var ErrSignature = errors.New("httpcall: signature does not match")

// ParseSecret reads a secret in the form of Standard Webhooks: "whsec_" and base64. The error
// wraps timeout.ErrArgument and does not repeat the secret.
func ParseSecret(text string) ([]byte, error) {
	encoded, is := strings.CutPrefix(text, secretPrefix)
	if !is {
		return nil, fmt.Errorf("%w: secret of %d bytes, must begin with %s", timeout.ErrArgument, len(text), secretPrefix)
	}
	secret, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(encoded, "="))
	if err != nil {
		return nil, fmt.Errorf("%w: secret of %d bytes, must be base64 after %s", timeout.ErrArgument, len(text), secretPrefix)
	}
	if len(secret) < minSecret || len(secret) > maxSecret {
		return nil, fmt.Errorf("%w: secret has %d bytes, must have %d to %d", timeout.ErrArgument, len(secret), minSecret, maxSecret)
	}
	return secret, nil
}

// sign sets the three headers, with one signature for each secret.
func sign(header http.Header, id string, now time.Time, body []byte, secrets [][]byte) {
	if len(secrets) == 0 {
		return
	}
	timestamp := strconv.FormatInt(now.Unix(), 10)
	signatures := make([]string, len(secrets))
	for i, secret := range secrets {
		signatures[i] = version + base64.StdEncoding.EncodeToString(mac(secret, id, timestamp, body))
	}
	header.Set(HeaderWebhookID, id)
	header.Set(HeaderWebhookTimestamp, timestamp)
	header.Set(HeaderWebhookSignature, strings.Join(signatures, " "))
}

func mac(secret []byte, id, timestamp string, body []byte) []byte {
	hash := hmac.New(sha256.New, secret)
	hash.Write([]byte(id + "." + timestamp + "."))
	hash.Write(body)
	return hash.Sum(nil)
}

// Verify is for targets. It returns nil if a request with this key and body was signed with one of the
// secrets, at most tolerance before or after now. Otherwise the error wraps ErrSignature. The body must
// be as it was sent. A secret of less than 24 bytes matches nothing: anybody could sign with an empty one.
// The error never shows the right signature.
//
// The key is the Webhook-Id, and the Idempotency-Key must be the same. It has the topic, the id and the
// version of the task, and callback.Parse refuses other ones beside it. No other header is signed.
func Verify(header http.Header, body []byte, now time.Time, tolerance time.Duration, secrets ...[]byte) error {
	timestamp := header.Get(HeaderWebhookTimestamp)
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return fmt.Errorf("%w: %s %.30q, must be a number", ErrSignature, HeaderWebhookTimestamp, timestamp)
	}
	if age := now.Sub(time.Unix(seconds, 0)); age < -tolerance || age > tolerance {
		return fmt.Errorf("%w: signed %v ago, must be at most %v", ErrSignature, age, tolerance)
	}
	id := header.Get(HeaderWebhookID)
	if key := header.Get(callback.HeaderKey); key != "" && key != id {
		return fmt.Errorf("%w: %s %.100q, must be the %s, %.100q", ErrSignature, callback.HeaderKey, key, HeaderWebhookID, id)
	}
	for text := range strings.SplitSeq(header.Get(HeaderWebhookSignature), " ") {
		encoded, is := strings.CutPrefix(text, version)
		signature, err := base64.StdEncoding.DecodeString(encoded)
		if !is || err != nil {
			continue // of another kind
		}
		for _, secret := range secrets {
			if len(secret) >= minSecret && hmac.Equal(signature, mac(secret, id, timestamp, body)) {
				return nil
			}
		}
	}
	return fmt.Errorf("%w: none of the signatures in %s", ErrSignature, HeaderWebhookSignature)
}
