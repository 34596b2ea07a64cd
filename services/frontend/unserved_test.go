package frontend_test

import (
	"net/http"
	"testing"
)

func TestKnownPathsThatAreNotServedAreA501(t *testing.T) {
	url := serve(t, &processor{}, nil)
	for _, method := range []string{"GET", "POST", "DELETE", "PUT", "PATCH", "OPTIONS"} {
		for _, path := range []string{"/v1/embeddings", "/v1/files/file-1", "/v1/threads/t/runs/r:x", "/v1/audio/speech", "/v1/chat/completions/c"} {
			resp, body := do(t, method, url+path, `{}`, "Content-Type", "application/json")
			e := failureOf(t, body)
			if resp.StatusCode != http.StatusNotImplemented || deref(e.Code) != "not_implemented" || e.Param != nil || e.Type != "server_error" ||
				resp.Header.Get("X-Should-Retry") != "false" || resp.Header.Get("X-Request-Id") == "" {
				t.Errorf("%s %s: %d %v %s", method, path, resp.StatusCode, resp.Header, body)
			}
		}
	}
	if resp, _ := do(t, http.MethodHead, url+"/v1/files", ""); resp.StatusCode != http.StatusNotImplemented {
		t.Errorf("HEAD: %d", resp.StatusCode)
	}
}
