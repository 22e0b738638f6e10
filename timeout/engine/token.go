package engine

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// String returns the token as text for a URL or a header. ParseToken reads it. Without a Proof
// anybody can forge it.
func (t Token) String() string {
	lease := strconv.FormatInt(t.Lease, 10)
	if t.Begun != 0 {
		lease += "@" + strconv.FormatInt(t.Begun, 10)
	}
	parts := []string{t.Topic, t.Part, lease, t.ID} // none has a newline
	if t.Proof != "" {
		parts = append(parts, t.Proof)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join(parts, "\n")))
}

// ParseToken reads the text that String returns. It does not check the Proof. The error wraps
// ErrArgument.
func ParseToken(text string) (Token, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return Token{}, fmt.Errorf("%w: token %.50q: %w", ErrArgument, text, err)
	}
	parts := strings.SplitN(string(raw), "\n", 5)
	if len(parts) < 4 {
		return Token{}, fmt.Errorf("%w: token %.50q, must have four parts", ErrArgument, text)
	}
	number, begin, pulled := strings.Cut(parts[2], "@")
	lease, err := strconv.ParseInt(number, 10, 64)
	var begun int64
	if err == nil && pulled {
		if begun, err = strconv.ParseInt(begin, 10, 64); err == nil {
			err = CheckDue(time.UnixMilli(begun))
		}
	}
	if err != nil {
		return Token{}, fmt.Errorf("%w: token %.50q: lease %.50q, must be a number, perhaps with a begin", ErrArgument, text, parts[2])
	}
	token := Token{Key: Key{Topic: parts[0], ID: parts[3]}, Lease: lease, Part: parts[1], Begun: begun}
	if len(parts) == 5 {
		token.Proof = parts[4]
	}
	return token, token.Check()
}
