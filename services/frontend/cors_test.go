package frontend_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard-llm/switchyard/services/frontend"
)

const page = "https://chat.example.com"

func serveCORS(t *testing.T, origins ...string) string {
	t.Helper()
	return serve(t, &processor{}, func(c *frontend.Config, _ *frontend.Deps) { c.CORSOrigins = origins })
}

func TestPreflights(t *testing.T) {
	ask := []string{"Origin", page, "Access-Control-Request-Method", "POST"}
	for _, c := range []struct {
		origins, headers []string
		origin, allowed  string // of the answer
	}{
		{[]string{"*"}, ask, "*", "Authorization, Content-Type, *"},
		{[]string{page}, ask, page, "Authorization, Content-Type, *"},
		{[]string{"http://localhost:3000", page}, append(slices.Clone(ask), "Access-Control-Request-Headers", "authorization,x-stainless-os"), page, "authorization,x-stainless-os"},
		{[]string{page}, append(slices.Clone(ask), "Access-Control-Request-Headers", "a;b"), page, "Authorization, Content-Type, *"},
		{[]string{page}, append(slices.Clone(ask), "Access-Control-Request-Headers", strings.Repeat("a", 3000)), page, "Authorization, Content-Type, *"},
		{[]string{"https://other.example.com"}, ask, "", ""},
	} {
		url := serveCORS(t, c.origins...)
		for _, path := range []string{"/v1/chat/completions", "/v1/models", "/tokenize", "/version", "/v1/embeddings"} {
			resp, body := do(t, http.MethodOptions, url+path, "", c.headers...)
			h := resp.Header
			if resp.StatusCode != http.StatusNoContent || body != "" || h.Get("Access-Control-Allow-Origin") != c.origin || h.Get("Access-Control-Allow-Headers") != c.allowed {
				t.Errorf("%v %s: %d %v", c.origins, path, resp.StatusCode, h)
			}
			if methods := h.Get("Access-Control-Allow-Methods"); (methods == "GET, HEAD, POST") != (c.origin != "") {
				t.Errorf("%v %s: methods %q", c.origins, path, methods)
			}
			if !slices.Contains(h.Values("Vary"), "Origin") {
				t.Errorf("%v %s: Vary %v", c.origins, path, h.Values("Vary"))
			}
		}
	}
}

func TestPagesMayReadAnswersAndErrors(t *testing.T) {
	url := serveCORS(t, page)
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/v1/chat/completions", chatBody("x", ``), 200},
		{"POST", "/v1/chat/completions", chatBody("x", `,"stream":true`), 200},
		{"POST", "/v1/chat/completions", `{`, 400},
		{"GET", "/v1/chat/completions", ``, 405},
		{"GET", "/v1/models/nobody", ``, 404},
		{"GET", "/v1/files", ``, 501},
		{"GET", "/nowhere", ``, 404},
		{"GET", "/health", ``, 503},
		{"DELETE", "/health", ``, 405},
		{"OPTIONS", "/v1/models", ``, 405}, // no preflight: it asks for no method
	} {
		for origin, want := range map[string]string{page: page, "https://evil.example.com": "", "": ""} {
			headers := []string{"Content-Type", "application/json"}
			if origin != "" {
				headers = append(headers, "Origin", origin)
			}
			resp, _ := do(t, c.method, url+c.path, c.body, headers...)
			h := resp.Header
			exposed := h.Get("Access-Control-Expose-Headers")
			if resp.StatusCode != c.status || h.Get("Access-Control-Allow-Origin") != want || h.Get("Vary") != "Origin" ||
				(want != "") != (strings.Contains(exposed, "X-Request-Id") && strings.Contains(exposed, "Retry-After")) {
				t.Errorf("%s %s of %q: %d %v", c.method, c.path, origin, resp.StatusCode, h)
			}
		}
	}
}

func TestCORSIsOffByDefault(t *testing.T) {
	url := serveCORS(t)
	for method, status := range map[string]int{"OPTIONS": 405, "GET": 200} {
		resp, _ := do(t, method, url+"/v1/models", "", "Origin", page, "Access-Control-Request-Method", "POST")
		if resp.StatusCode != status || resp.Header.Get("Vary") != "" || resp.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d %v", method, resp.StatusCode, resp.Header)
		}
	}
}

func TestOriginsAreChecked(t *testing.T) {
	for origin, ok := range map[string]bool{
		"*": true, page: true, "http://localhost:3000": true, "http://[::1]:80": true, "app://x": true,
		"": false, "chat.example.com": false, page + "/": false, page + "/x": false, "HTTPS://chat.example.com": false, "https://Chat.example.com": false, "https://u@h": false, "null": false,
	} {
		cfg := frontend.DefaultConfig()
		cfg.CORSOrigins = []string{page, origin}
		if err := cfg.Validate(); (err == nil) != ok || err != nil && !strings.HasPrefix(err.Error(), "cors_origins is ") {
			t.Errorf("%q: %v", origin, err)
		}
	}
}
