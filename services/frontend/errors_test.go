package frontend_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/switchyard-llm/switchyard/libs/rpc"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	"github.com/switchyard-llm/switchyard/services/frontend"
)

func TestErrorsHaveTheirStatusAndForm(t *testing.T) {
	url := serve(t, &processor{}, func(c *frontend.Config, _ *frontend.Deps) { c.MaxBodyBytes = 1000 })
	const chat = "/v1/chat/completions"
	json := []string{"Content-Type", "application/json"}
	for _, c := range []struct {
		method, path, body string
		headers            []string
		status             int
		param, code        string
	}{
		{"POST", chat, ``, json, 400, "null", "null"},
		{"POST", chat, `{"model":`, json, 400, "null", "null"},
		{"POST", chat, `{"model":"acme/echo","messages":[]}`, json, 400, "messages", "empty_array"},
		{"POST", chat, chatBody("x", `,"n":0`), json, 400, "n", "integer_below_min_value"},
		{"POST", chat, chatBody("x", `,"tools":[1],"stream":true`), json, 400, "tools", "unsupported_value"},
		{"POST", chat, chatBody("x", `,"stream":true,"stream_options":{"what":1}`), json, 400, "stream_options.what", "unknown_parameter"},
		{"POST", chat, `{"model":"other","messages":[{"role":"user","content":"x"}]}`, json, 404, "model", "model_not_found"},
		{"POST", chat, `{"model":"other","messages":[{"role":"user","content":"x"}],"stream":true}`, json, 404, "model", "model_not_found"},
		{"POST", "/v1/completions", `{"model":"acme/echo"}`, json, 400, "prompt", "missing_required_parameter"},
		{"POST", chat, chatBody(strings.Repeat("x", 1000), ""), json, 413, "null", "request_too_large"},
		{"POST", chat, chatBody("x", ""), []string{"Content-Type", "text/plain"}, 415, "null", "unsupported_content_type"},
		{"POST", chat, chatBody("x", ""), []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "null", "unsupported_content_type"},
		{"POST", chat, chatBody("x", ""), append(json, "Content-Encoding", "br"), 415, "null", "unsupported_content_encoding"},
		{"POST", chat, chatBody("x", ""), append(json, "Content-Encoding", "gzip"), 400, "null", "null"},
		{"POST", chat, chatBody("x", ""), []string{"Content-Type", "application/jsonx"}, 415, "null", "unsupported_content_type"},
		{"POST", "/tokenize", `{}`, []string{"Content-Type", "text/plain"}, 415, "null", "unsupported_content_type"},
		{"POST", "/detokenize", strings.Repeat(" ", 1001), json, 413, "null", "request_too_large"},
		{"POST", chat, `{"model":"acme/echo","messages":null}`, json, 400, "messages", "invalid_type"},
		{"POST", chat, `{"model":null,"messages":[]}`, json, 400, "model", "missing_required_parameter"},
		{"POST", "/tokenize", `{"model":"acme/echo","prompt":null}`, json, 400, "prompt", "missing_required_parameter"},
		{"GET", chat, ``, nil, 405, "null", "method_not_supported"},
		{"PUT", "/v1/completions", `{}`, json, 405, "null", "method_not_supported"},
		{"POST", "/v1/models", `{}`, json, 405, "null", "method_not_supported"},
		{"DELETE", "/v1/models/acme/echo", ``, nil, 405, "null", "method_not_supported"},
		{"GET", "/v1/models/nobody", ``, nil, 404, "model", "model_not_found"},
		{"GET", "/v1/models/", ``, nil, 404, "model", "model_not_found"},
		{"GET", "/v1/modelsx", ``, nil, 404, "null", "unknown_url"},
		{"POST", "/v1/embeddingsx", `{}`, json, 404, "null", "unknown_url"},
		{"POST", chat + "/", chatBody("x", ""), json, 404, "null", "unknown_url"},
		{"GET", "/", ``, nil, 404, "null", "unknown_url"},
		{"GET", "/metrics", ``, nil, 404, "null", "unknown_url"},
		{"POST", "/health", `{}`, json, 405, "null", "method_not_supported"},
	} {
		resp, body := do(t, c.method, url+c.path, c.body, c.headers...)
		e := failureOf(t, body)
		if resp.StatusCode != c.status || deref(e.Param) != c.param || deref(e.Code) != c.code || e.Message == "" ||
			e.Type != "invalid_request_error" || resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s %.80s: %d %s, want %d param %s code %s", c.method, c.path, c.body, resp.StatusCode, body, c.status, c.param, c.code)
		}
		if c.status == 405 {
			want := "POST"
			if strings.HasPrefix(c.path, "/v1/models") || c.path == "/health" {
				want = "GET, HEAD"
			}
			if got := resp.Header.Get("Allow"); got != want {
				t.Errorf("%s %s: Allow %q, want %q", c.method, c.path, got, want)
			}
		}
	}
}

func TestProcessorErrorsBeforeTheFirstChunk(t *testing.T) {
	tooLong, err := status.New(codes.InvalidArgument, "x").WithDetails(&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
		{Field: "messages", Description: "8193 tokens are too many", Reason: "CONTEXT_LENGTH_EXCEEDED"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		err               error
		status            int
		param, code, wait string
	}{
		{tooLong.Err(), 400, "messages", "context_length_exceeded", ""},
		{rpc.InvalidArgument("max_tokens", "fewer"), 400, "max_tokens", "invalid_value", ""},
		{rpc.ResourceExhausted("full", 1500*time.Millisecond), 429, "null", "rate_limit_exceeded", "2"},
		{rpc.Unavailable("no worker"), 503, "null", "service_unavailable", "1"},
		{context.DeadlineExceeded, 504, "null", "timeout", ""},
		{rpc.Internal(io.ErrShortBuffer), 500, "null", "internal_error", ""},
		{nil, 500, "null", "internal_error", ""}, // it ended without an answer
	} {
		url := serve(t, &processor{handler: func(*generationv1.Request, sender) error { return c.err }}, nil)
		for _, more := range []string{``, `,"stream":true`} {
			resp, body := post(t, url+"/v1/chat/completions", chatBody("x", more))
			e := failureOf(t, body)
			if resp.StatusCode != c.status || deref(e.Param) != c.param || deref(e.Code) != c.code || resp.Header.Get("Retry-After") != c.wait {
				t.Errorf("%v%s: %d %v %s", c.err, more, resp.StatusCode, resp.Header, body)
			}
			if strings.Contains(body, "buffer") {
				t.Errorf("the cause reached the client: %s", body)
			}
		}
	}
}

func TestErrorsAfterTheFirstChunkAreEvents(t *testing.T) {
	url := serve(t, &processor{handler: func(_ *generationv1.Request, out sender) error {
		if err := say(out, "x"); err != nil {
			return err
		}
		return rpc.Unavailable("gone")
	}}, nil)
	// The first token reaches the client only when nothing waits behind it, so an error
	// that comes at once may still have its status; either way the client learns of it.
	resp, body := post(t, url+"/v1/chat/completions", chatBody("x", `,"stream":true`))
	if resp.StatusCode == http.StatusOK {
		events := strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n")
		if e := failureOf(t, strings.TrimPrefix(events[len(events)-1], "data: ")); deref(e.Code) != "service_unavailable" || strings.Contains(body, "[DONE]") {
			t.Errorf("stream ended with %s", body)
		}
	} else if resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("status %d", resp.StatusCode)
	}
	resp, body = post(t, url+"/v1/chat/completions", chatBody("x", ``))
	if e := failureOf(t, body); resp.StatusCode != http.StatusServiceUnavailable || deref(e.Code) != "service_unavailable" {
		t.Errorf("not streamed: %d %s", resp.StatusCode, body)
	}
}

func TestAPanicOfTheProcessorIsA500(t *testing.T) {
	url := serve(t, &processor{handler: func(*generationv1.Request, sender) error { panic("boom") }}, func(_ *frontend.Config, d *frontend.Deps) {
		d.Processor = panicking{d.Processor}
	})
	resp, body := post(t, url+"/v1/chat/completions", chatBody("x", ``))
	if e := failureOf(t, body); resp.StatusCode != http.StatusInternalServerError || strings.Contains(e.Message, "boom") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

func zipped(t *testing.T, s string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestGzipBodies(t *testing.T) {
	url := serve(t, &processor{}, func(c *frontend.Config, _ *frontend.Deps) { c.MaxBodyBytes = 10_000 }) + "/v1/chat/completions"
	if resp, body := post(t, url, zipped(t, chatBody("hello", "")), "Content-Encoding", "gzip"); resp.StatusCode != 200 || !strings.Contains(body, "hello") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	bomb := zipped(t, chatBody(strings.Repeat(" ", 1<<20), ""))
	if len(bomb) > 10_000 {
		t.Fatalf("the bomb has %d bytes, want it small", len(bomb))
	}
	if resp, body := post(t, url, bomb, "Content-Encoding", "gzip"); resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if resp, body := post(t, url, zipped(t, chatBody("hello", ""))[:30], "Content-Encoding", "gzip"); resp.StatusCode != 400 {
		t.Errorf("a cut body: %d %s", resp.StatusCode, body)
	}
}

// A body of unknown length is bounded while it is read, and the client gets the answer.
func TestChunkedBodiesAreBounded(t *testing.T) {
	url := serve(t, &processor{}, func(c *frontend.Config, _ *frontend.Deps) { c.MaxBodyBytes = 100_000 })
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions",
		io.MultiReader(strings.NewReader(chatBody("x", "")), strings.NewReader(strings.Repeat(" ", 110_000))))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d", resp.StatusCode)
	}
}

func TestABodyThatDoesNotComeIsA408(t *testing.T) {
	url := serve(t, &processor{}, func(c *frontend.Config, _ *frontend.Deps) { c.BodyTimeout = 50 * time.Millisecond })
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(conn) // the server closes the connection
	if !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") || !strings.Contains(string(answer), `"code":"request_timeout"`) {
		t.Errorf("answer %q", answer)
	}
}

func TestRequestsInFlightAreBounded(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	url := serve(t, &processor{handler: func(in *generationv1.Request, out sender) error {
		begun <- struct{}{}
		<-release
		return echo(in, out)
	}}, func(c *frontend.Config, _ *frontend.Deps) { c.MaxRequests = 1 }) + "/v1/chat/completions"
	first := make(chan int)
	go func() {
		resp, _ := post(t, url, chatBody("x", ""))
		first <- resp.StatusCode
	}()
	<-begun
	resp, body := post(t, url, chatBody("x", ""))
	if e := failureOf(t, body); resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "1" || deref(e.Code) != "rate_limit_exceeded" {
		t.Errorf("the second: %d %v %s", resp.StatusCode, resp.Header, body)
	}
	close(release)
	if status := <-first; status != http.StatusOK {
		t.Errorf("the first: %d", status)
	}
}

func TestAnswersThatTakeTooLongAreA504(t *testing.T) {
	url := serve(t, &processor{handler: func(_ *generationv1.Request, out sender) error {
		<-out.Context().Done()
		return out.Context().Err()
	}}, func(c *frontend.Config, _ *frontend.Deps) { c.RequestTimeout = 20 * time.Millisecond })
	for _, more := range []string{``, `,"stream":true`} {
		resp, body := post(t, url+"/v1/chat/completions", chatBody("x", more))
		if e := failureOf(t, body); resp.StatusCode != http.StatusGatewayTimeout || deref(e.Code) != "timeout" {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
	}
}
