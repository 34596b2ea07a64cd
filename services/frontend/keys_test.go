package frontend_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/switchyard-llm/switchyard/services/frontend"
)

func TestAKeyIsAskedForWhereThereAreAny(t *testing.T) {
	with := func(list ...string) string {
		return serve(t, &processor{}, func(c *frontend.Config, _ *frontend.Deps) { c.APIKeys = list })
	}
	some, none := with("first", "second"), with()
	for _, c := range []struct {
		url, header string
		status      int
	}{
		{some, "", 401}, {some, "Bearer ", 401}, {some, "Bearer third", 401}, {some, "Bearer firs", 401}, {some, "Basic first", 401}, {some, "first", 401},
		{some, "Bearer first", 200}, {some, "bearer second", 200}, {none, "", 200}, {none, "Bearer any", 200},
	} {
		for _, path := range []string{"/v1/models", "/v1/chat/completions", "/tokenize"} {
			method, body := http.MethodPost, chatBody("a", "")
			if path == "/v1/models" {
				method, body = http.MethodGet, ""
			}
			resp, answer := do(t, method, c.url+path, body, "Content-Type", "application/json", "Authorization", c.header)
			if resp.StatusCode != c.status || (c.status == 401) != (resp.Header.Get("WWW-Authenticate") == "Bearer") {
				t.Errorf("%q at %s: %d %v %s, want %d", c.header, path, resp.StatusCode, resp.Header, answer, c.status)
			}
			if c.status == 401 && (deref(failureOf(t, answer).Code) != "invalid_api_key" || strings.Contains(answer, "third")) {
				t.Errorf("%s", answer)
			}
		}
	}
	for _, path := range []string{"/version", "/openapi.json"} {
		if resp, body := do(t, http.MethodGet, some+path, ""); resp.StatusCode != 200 {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
	}
}
