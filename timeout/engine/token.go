package engine

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
)

// String returns the token as text for a URL or a header. ParseToken reads it. Without a Proof
// anybody can forge it.
func (t Token) String() string {
	parts := []string{t.Topic, t.Part, strconv.FormatInt(t.Lease, 10), t.ID} // none has a newline
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
	lease, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil {
		return Token{}, fmt.Errorf("%w: token %.50q: lease %.30q, must be a number", ErrArgument, text, parts[2])
	}
	token := Token{Key: Key{Topic: parts[0], ID: parts[3]}, Lease: lease, Part: parts[1]}
	if len(parts) == 5 {
		token.Proof = parts[4]
	}
	return token, token.Check()
}
