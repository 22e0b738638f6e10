package timeout

import (
	"crypto/hmac"
	"crypto/sha256"
)

// prove returns the token with a proof by the first of the keys, if any.
func prove(token Token, keys [][]byte) Token {
	token.Proof = ""
	if len(keys) > 0 {
		token.Proof = string(signature(token, keys[0]))
	}
	return token
}

// proved reports whether the token's proof is by one of the keys.
func proved(token Token, keys [][]byte) bool {
	for _, key := range keys {
		if hmac.Equal([]byte(token.Proof), signature(token, key)) {
			return true
		}
	}
	return false
}

func signature(token Token, key []byte) []byte {
	token.Proof = ""
	hash := hmac.New(sha256.New, key)
	hash.Write([]byte(token.String()))
	return hash.Sum(nil)
}
