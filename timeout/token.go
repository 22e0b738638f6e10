package timeout

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
)

// String returns the token as text that fits into a URL or a header: ParseToken reads it.
// It is a proof of nothing but the lease, and not secret from whoever runs the task.
func (t Token) String() string {
	parts := strings.Join([]string{t.Topic, t.Part, strconv.FormatInt(t.Lease, 10), t.ID}, "\n")
	return base64.RawURLEncoding.EncodeToString([]byte(parts))
}

// ParseToken reads what String has written. The error wraps ErrArgument.
func ParseToken(text string) (Token, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return Token{}, fmt.Errorf("%w: token %.50q: %w", ErrArgument, text, err)
	}
	parts := strings.SplitN(string(raw), "\n", 4)
	if len(parts) != 4 {
		return Token{}, fmt.Errorf("%w: token %.50q, must have four parts", ErrArgument, text)
	}
	lease, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil {
		return Token{}, fmt.Errorf("%w: token %.50q: lease %.30q, must be a number", ErrArgument, text, parts[2])
	}
	token := Token{Key: Key{Topic: parts[0], ID: parts[3]}, Lease: lease, Part: parts[1]}
	return token, token.Check()
}
