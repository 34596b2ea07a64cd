package frontend_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/metadata"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

var variable = regexp.MustCompile(`"(id)":"((?:chatcmpl|cmpl)-)[0-9a-f]{24}"|"(created)":\d{10}`)

// fixed replaces what differs from answer to answer.
func fixed(body string) string { return variable.ReplaceAllString(body, `"$1$3":"$2*"`) }

func TestStreamedChat(t *testing.T) {
	url := serve(t, &processor{}, nil)
	resp, body := post(t, url+"/v1/chat/completions", chatBody("Hello wide \"world\"", `,"stream":true,"stream_options":{"include_usage":true}`))
	const head = `data: {"id":"chatcmpl-*","object":"chat.completion.chunk","created":"*","model":"acme/echo","choices":`
	want := strings.Join([]string{
		head + `[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":null}`,
		head + `[{"index":0,"delta":{"content":"Hello "},"logprobs":null,"finish_reason":null}],"usage":null}`,
		head + `[{"index":0,"delta":{"content":"wide "},"logprobs":null,"finish_reason":null}],"usage":null}`,
		head + `[{"index":0,"delta":{"content":"\"world\""},"logprobs":null,"finish_reason":null}],"usage":null}`,
		head + `[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null}`,
		head + `[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":4}}}`,
		`data: [DONE]`, ``,
	}, "\n\n")
	if got := fixed(body); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" || resp.Header.Get("Cache-Control") != "no-cache" {
		t.Errorf("status %d, headers %v", resp.StatusCode, resp.Header)
	}
	for name := range resp.Header {
		if strings.HasPrefix(strings.ToLower(name), "grpc-") || name == "Trailer" {
			t.Errorf("header %s leaked", name)
		}
	}
}

func TestWholeChat(t *testing.T) {
	url := serve(t, &processor{}, nil)
	resp, body := post(t, url+"/v1/chat/completions", chatBody("one two three", `,"max_tokens":2`))
	want := `{"id":"chatcmpl-*","object":"chat.completion","created":"*","model":"acme/echo","choices":[{"index":0,"message":{"role":"assistant","content":"one two ","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"length"}],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9,"prompt_tokens_details":{"cached_tokens":4}}}`
	if got := fixed(body); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if resp.Header.Get("Content-Type") != "application/json" || resp.ContentLength != int64(len(body)) {
		t.Errorf("Content-Type %q, length %d", resp.Header.Get("Content-Type"), resp.ContentLength)
	}
}

func TestTextCompletions(t *testing.T) {
	url := serve(t, &processor{}, nil) + "/v1/completions"
	_, body := post(t, url, `{"model":"acme/echo","prompt":[1,2],"stream":true}`)
	const head = `data: {"id":"cmpl-*","object":"text_completion","created":"*","model":"acme/echo","choices":`
	want := strings.Join([]string{
		head + `[{"index":0,"text":"t","logprobs":null,"finish_reason":null}]}`,
		head + `[{"index":0,"text":"t","logprobs":null,"finish_reason":null}]}`,
		head + `[{"index":0,"text":"","logprobs":null,"finish_reason":"stop"}]}`,
		`data: [DONE]`, ``,
	}, "\n\n")
	if got := fixed(body); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	_, body = post(t, url, `{"model":"acme/echo","prompt":"a b"}`)
	if want := `"choices":[{"index":0,"text":"a b","logprobs":null,"finish_reason":"stop"}]`; !strings.Contains(body, want) {
		t.Errorf("got %s, want …%s…", body, want)
	}
}

func TestRequestsAreCompletedForTheProcessor(t *testing.T) {
	p := &processor{}
	url := serve(t, p, nil)
	_, body := post(t, url+"/v1/chat/completions", chatBody("x", ""))
	first := p.request()
	s := first.GetSampling()
	if s.Temperature == nil || *s.Temperature != 1 || s.TopP == nil || *s.TopP != 1 || s.TopK == nil || s.Seed == nil || first.GetLimits().MaxTokens != nil {
		t.Errorf("request %v, want OpenAI's defaults and a seed", first)
	}
	if !strings.HasPrefix(first.GetRequestId(), "chatcmpl-") || !strings.Contains(body, first.GetRequestId()) {
		t.Errorf("request id %q, answer %s", first.GetRequestId(), body)
	}
	post(t, url+"/v1/chat/completions", chatBody("x", ""))
	if again := p.request(); again.GetSampling().GetSeed() == s.GetSeed() || again.GetRequestId() == first.GetRequestId() {
		t.Error("two requests have one seed or one id")
	}
	post(t, url+"/v1/chat/completions", chatBody("x", `,"temperature":0,"seed":5,"stop":"END"`))
	if r := p.request(); r.GetSampling().GetTemperature() != 0 || r.GetSampling().GetSeed() != 5 || r.GetLimits().GetStop()[0] != "END" {
		t.Errorf("request %v, want what the client sent", r)
	}
}

func TestModels(t *testing.T) {
	url := serve(t, &processor{}, nil)
	const first = `{"id":"acme/echo","object":"model","created":1700000000,"owned_by":"switchyard","max_model_len":8192}`
	for path, want := range map[string]string{
		"/v1/models":             `{"object":"list","data":[` + first + `,{"id":"b","object":"model","created":0,"owned_by":"switchyard"}]}`,
		"/v1/models/acme/echo":   first,
		"/v1/models/acme%2Fecho": first,
		"/v1/models/acme%2fecho": first,
	} {
		resp, body := do(t, http.MethodGet, url+path, "")
		if resp.StatusCode != http.StatusOK || body != want || resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
	}
}

func TestHEADAnswersAsGETWithoutABody(t *testing.T) {
	url := serve(t, &processor{}, nil)
	for path, status := range map[string]int{"/v1/models": 200, "/v1/models/acme/echo": 200, "/v1/models/nobody": 404, "/v1/chat/completions": 405} {
		get, _ := do(t, http.MethodGet, url+path, "")
		resp, body := do(t, http.MethodHead, url+path, "")
		if resp.StatusCode != status || body != "" || path != "/v1/chat/completions" && resp.ContentLength != get.ContentLength {
			t.Errorf("%s: %d %q, %d bytes, want %d and %d", path, resp.StatusCode, body, resp.ContentLength, status, get.ContentLength)
		}
	}
}

func TestABodyWithoutAContentTypeIsRead(t *testing.T) {
	url := serve(t, &processor{}, nil)
	if resp, body := do(t, http.MethodPost, url+"/v1/chat/completions", chatBody("hello", "")); resp.StatusCode != http.StatusOK {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

func TestRequestIDsAreEchoed(t *testing.T) {
	p := &processor{}
	url := serve(t, p, nil) + "/v1/chat/completions"
	if resp, _ := post(t, url, chatBody("x", ""), "X-Request-Id", "mine-1"); resp.Header.Get("X-Request-Id") != "mine-1" {
		t.Errorf("X-Request-Id %q, want the client's", resp.Header.Get("X-Request-Id"))
	}
	for _, unfit := range []string{"", strings.Repeat("x", 500), "a b"} {
		resp, _ := post(t, url, chatBody("x", ""), "X-Request-Id", unfit)
		if got := resp.Header.Get("X-Request-Id"); got != p.request().GetRequestId() {
			t.Errorf("X-Request-Id %q for %q, want the request's own", got, unfit)
		}
	}
}

func TestAHeaderNamesTheDecodeWorker(t *testing.T) {
	p := &processor{}
	url := serve(t, p, nil) + "/v1/chat/completions"
	for _, name := range []string{"decode-3", ""} {
		post(t, url, chatBody("x", `,"prompt_cache_key":"s"`), "X-Switchyard-Worker", name)
		if got := p.request(); got.GetDecodeWorker() != name || got.GetSession() != "s" {
			t.Errorf("the header %q became worker %q, the key \"s\" session %q", name, got.GetDecodeWorker(), got.GetSession())
		}
	}
}

func TestHeadersDoNotBecomeMetadata(t *testing.T) {
	var seen metadata.MD
	p := &processor{handler: func(in *generationv1.Request, out sender) error {
		seen, _ = metadata.FromIncomingContext(out.Context())
		if _, ok := out.Context().Deadline(); !ok {
			t.Error("the request has no deadline")
		}
		return echo(in, out)
	}}
	url := serve(t, p, nil)
	resp, body := post(t, url+"/v1/chat/completions", chatBody("x", ""), "Grpc-Metadata-Evil", "1", "Grpc-Timeout", "1n",
		"Authorization", "Bearer key", "X-Forwarded-For", "1.2.3.4", "X-Http-Method-Override", "GET", "TE", "trailers")
	if resp.StatusCode != http.StatusOK || len(seen) > 0 {
		t.Errorf("status %d (%s), metadata %v, want 200 and none", resp.StatusCode, body, seen)
	}
}

func TestManyAtOnce(t *testing.T) {
	url := serve(t, &processor{}, nil)
	var clients sync.WaitGroup
	for i := range 32 {
		clients.Go(func() {
			text := strings.Repeat(fmt.Sprintf("word%d ", i), 50)
			for range 4 {
				_, body := post(t, url+"/v1/chat/completions", chatBody(text, `,"stream":true`))
				if n := strings.Count(body, fmt.Sprintf(`"content":"word%d "`, i)); n != 50 || !strings.HasSuffix(body, "data: [DONE]\n\n") {
					t.Errorf("client %d got %d of 50 words", i, n)
				}
			}
		})
	}
	clients.Wait()
}

// A client that goes away ends its generation, streamed or not.
func TestDisconnectCancelsTheProcessor(t *testing.T) {
	for _, more := range []string{`,"stream":true`, ``} {
		begun, ended := make(chan struct{}), make(chan error, 1)
		p := &processor{handler: func(_ *generationv1.Request, out sender) error {
			err := say(out, "x")
			close(begun)
			if err == nil { // else the client has left with the first chunk
				<-out.Context().Done()
			}
			ended <- out.Context().Err()
			return out.Context().Err()
		}}
		url := serve(t, p, nil)
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(chatBody("x", more)))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			<-begun
			cancel()
		}()
		if resp, err := http.DefaultClient.Do(r); err == nil {
			resp.Body.Close()
		}
		if err := <-ended; err != context.Canceled {
			t.Errorf("the processor's context ended with %v", err)
		}
	}
}
