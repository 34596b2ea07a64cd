package broker

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
)

var plainToken = regexp.MustCompile(`^[A-Za-z0-9-]{1,48}$`)

// Token makes any text a part of a subject; text that cannot be one becomes its digest.
func Token(text string) string {
	if plainToken.MatchString(text) {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + hex.EncodeToString(sum[:16])
}
