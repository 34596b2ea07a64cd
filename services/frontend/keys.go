package frontend

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/switchyard-llm/switchyard/services/frontend/openai"
)

// keys are the digests of those that clients may show; none: no key is asked for.
type keys [][sha256.Size]byte

func newKeys(list []string) keys {
	var k keys
	for _, key := range list {
		k = append(k, sha256.Sum256([]byte(key)))
	}
	return k
}

// check makes sure that a request shows one of the keys. How long it takes says nothing of
// how much of a key is right.
func (k keys) check(x *exchange, r *http.Request) error {
	if len(k) == 0 {
		return nil
	}
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	given = strings.TrimSpace(given)
	digest, right := sha256.Sum256([]byte(given)), 0
	for _, key := range k {
		right |= subtle.ConstantTimeCompare(key[:], digest[:])
	}
	if strings.EqualFold(scheme, "Bearer") && right == 1 {
		return nil
	}
	x.Header().Set("WWW-Authenticate", "Bearer")
	if given == "" {
		return openai.Refuse(http.StatusUnauthorized, "invalid_api_key", "",
			"You didn't provide an API key. Send one in the header Authorization, as 'Bearer KEY'.")
	}
	return openai.Refuse(http.StatusUnauthorized, "invalid_api_key", "", "Incorrect API key provided.")
}
