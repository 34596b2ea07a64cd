package frontend

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// anyOrigin stands for all origins among those that are allowed.
const anyOrigin = "*"

// What web pages of allowed origins may do, beyond what any page may.
const (
	corsMethods = "GET, HEAD, POST"
	corsExposed = "X-Request-Id, Retry-After, X-Should-Retry, " + ignoredHeader
	corsMaxAge  = "600" // seconds for which a browser need not ask again
	// corsHeaders is said where a browser's list of headers is none. The star does not
	// stand for Authorization.
	corsHeaders = "Authorization, Content-Type, *"
	// maxCORSHeaders bounds the list that is sent back.
	maxCORSHeaders = 2048
)

// checkOrigin makes sure that an entry of cors_origins can be an origin: a browser sends
// scheme and host in lower case, and nothing after the port.
func checkOrigin(origin string) error {
	if origin == anyOrigin {
		return nil
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin || strings.ToLower(origin) != origin {
		return fmt.Errorf(`cors_origins is %q, want "*" or origins such as "https://chat.example.com", in lower case and without a path`, origin)
	}
	return nil
}

// cors lets web pages of the allowed origins read answers, errors included. It tells
// whether the request was a preflight, which it has answered then. No credentials are
// allowed: keys travel in a header that the page itself sets.
func (e *edge) cors(w http.ResponseWriter, r *http.Request) (answered bool) {
	allowed := e.f.cfg.CORSOrigins
	if len(allowed) == 0 {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	preflight := r.Method == http.MethodOptions && origin != "" && r.Header.Get("Access-Control-Request-Method") != ""
	switch {
	case origin == "":
	case slices.Contains(allowed, anyOrigin):
		h.Set("Access-Control-Allow-Origin", anyOrigin)
	case slices.Contains(allowed, origin):
		h.Set("Access-Control-Allow-Origin", origin)
	}
	if !preflight {
		if h.Get("Access-Control-Allow-Origin") != "" {
			h.Set("Access-Control-Expose-Headers", corsExposed)
		}
		return false
	}
	h.Add("Vary", "Access-Control-Request-Headers")
	if h.Get("Access-Control-Allow-Origin") != "" { // else the browser goes no further
		h.Set("Access-Control-Allow-Methods", corsMethods)
		h.Set("Access-Control-Allow-Headers", allowedHeaders(r.Header.Get("Access-Control-Request-Headers")))
		h.Set("Access-Control-Max-Age", corsMaxAge)
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}

// allowedHeaders sends back the list that a browser asks for: clients have headers of
// their own, and none of them lets a page do more.
func allowedHeaders(asked string) string {
	if asked == "" || len(asked) > maxCORSHeaders {
		return corsHeaders
	}
	for _, c := range []byte(asked) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case !strings.ContainsRune("!#$%&'*+-.^_`|~, ", rune(c)): // what a name and a list are made of
			return corsHeaders
		}
	}
	return asked
}
