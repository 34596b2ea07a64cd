package serve

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const ms = time.Millisecond

func TestTimesOfAStreamAreThoseOfItsEvents(t *testing.T) {
	cfg := config()
	cfg.Requests = 3
	handler := stream(event{10 * ms, role}, event{20 * ms, delta("a")}, event{10 * ms, delta("b")}, event{20 * ms, delta("c")},
		event{5 * ms, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`}, event{0, counted(9, 3, 4)}, event{5 * ms, ended})
	against(t, cfg, handler, func(r *Result, err error) {
		if err != nil {
			t.Fatal(err)
		}
		one := Sample{TTFT: 30 * ms, TPOT: 15 * ms, EndToEnd: 70 * ms, Chunks: 6, Input: 9, Output: 3, Cached: 4, Counted: true}
		if diff := cmp.Diff([]Sample{one, one, one}, r.Samples); diff != "" {
			t.Errorf("samples (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]time.Duration{10 * ms, 20 * ms, 10 * ms, 20 * ms, 10 * ms, 20 * ms}, r.Gaps); diff != "" {
			t.Errorf("gaps (-want +got):\n%s", diff)
		}
		if r.Elapsed != 210*ms || r.Chunks != 18 || r.Input != 27 || r.Output != 9 || r.Cached != 12 {
			t.Errorf("%v, %d chunks, %d, %d and %d tokens", r.Elapsed, r.Chunks, r.Input, r.Output, r.Cached)
		}
		if got := r.Rate(len(r.Samples)); got < 14.28 || got > 14.29 {
			t.Errorf("%v requests/s", got)
		}
		if all, none := r.Met(30*ms, 15*ms), r.Met(30*ms, 14*ms)+r.Met(29*ms, 0); all != 3 || none != 0 {
			t.Errorf("%d met the targets they are at, %d those they miss", all, none)
		}
	})
}

func TestEventsCountAsTokensWithoutUsage(t *testing.T) {
	cfg := config()
	cfg.Requests, cfg.Endpoint = 1, Completions
	handler := stream(event{ms, `{"choices":[{"text":"a"}]}`}, event{ms, `{"choices": [{"text": "b"}]}`}, event{ms, `{"choices":[{"text":""}]}`}, event{0, ended})
	against(t, cfg, handler, func(r *Result, err error) {
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]Sample{{TTFT: ms, TPOT: ms, EndToEnd: 3 * ms, Chunks: 3, Output: 2}}, r.Samples); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

func TestAnswersThatAreNoStreamHaveNoTimesOfTokens(t *testing.T) {
	cfg := config()
	cfg.Requests, cfg.Stream = 1, false
	handler := func(w http.ResponseWriter, r *http.Request) {
		wait(r.Context(), time.Second)
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":5,"completion_tokens":2}}`)
	}
	against(t, cfg, handler, func(r *Result, err error) {
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]Sample{{EndToEnd: time.Second, Input: 5, Output: 2, Counted: true}}, r.Samples); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if list := r.Times(&cfg); len(list) != 1 || list[0].Name != "E2E" {
			t.Errorf("times are %v", list)
		}
	})
}

func TestClosedLoopKeepsSoManyUnderWay(t *testing.T) {
	cfg := config()
	cfg.Concurrency, cfg.Requests = 8, 40
	var now, most atomic.Int64
	handler := func(w http.ResponseWriter, r *http.Request) {
		most.Store(max(most.Load(), now.Add(1)))
		after(time.Second)(w, r)
		now.Add(-1)
	}
	against(t, cfg, handler, func(r *Result, err error) {
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Samples) != 40 || most.Load() != 8 || r.Elapsed != 5*time.Second {
			t.Errorf("%d samples, %d at once, in %v", len(r.Samples), most.Load(), r.Elapsed)
		}
	})
}

func TestOpenLoopDoesNotWaitForAnswers(t *testing.T) {
	cfg := config()
	cfg.Rate, cfg.Arrivals, cfg.Requests = 10, Fixed, 20
	against(t, cfg, after(5*time.Second), func(r *Result, err error) {
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Samples) != 20 || r.Elapsed != 6900*ms || r.Late().Max != 0 || r.TTFT().Max != 5*time.Second {
			t.Errorf("%d samples in %v, %v late, TTFT %v", len(r.Samples), r.Elapsed, r.Late(), r.TTFT())
		}
	})
}

func TestNoRequestBeginsAfterTheDuration(t *testing.T) {
	closed, open := config(), config()
	closed.Concurrency, closed.Duration = 2, 2500*ms
	open.Rate, open.Arrivals, open.Duration = 2, Fixed, 2500*ms
	for _, c := range []struct {
		cfg     Config
		samples int
		elapsed time.Duration
	}{{closed, 6, 3 * time.Second}, {open, 5, 3 * time.Second}} {
		against(t, c.cfg, after(time.Second), func(r *Result, err error) {
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Samples) != c.samples || r.Elapsed != c.elapsed {
				t.Errorf("%s: %d samples in %v, want %d in %v", c.cfg.Case(), len(r.Samples), r.Elapsed, c.samples, c.elapsed)
			}
		})
	}
}

func TestWarmupIsNotMeasured(t *testing.T) {
	cfg := config()
	cfg.Requests, cfg.Warmup = 2, 3
	var requests atomic.Int64
	texts := map[string]bool{}
	handler := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if requests.Add(1) > 3 { // one at a time from here on
			texts[string(body)] = true
		}
		after(time.Second)(w, r)
	}
	against(t, cfg, handler, func(r *Result, err error) {
		if err != nil || len(r.Samples) != 2 || requests.Load() != 5 || r.Elapsed != 2*time.Second || len(texts) != 2 {
			t.Errorf("%d samples of %d requests with %d texts in %v, %v", len(r.Samples), requests.Load(), len(texts), r.Elapsed, err)
		}
	})
}

func TestAWarmupThatAllFailsIsAnError(t *testing.T) {
	cfg := config()
	cfg.Warmup = 3
	against(t, cfg, func(w http.ResponseWriter, r *http.Request) { http.Error(w, "closed", 503) }, func(_ *Result, err error) {
		if err == nil || err.Error() != "warm up: all 3 requests are without answer: http 503: closed" {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestFailuresAreCountedByKind(t *testing.T) {
	cfg := config()
	cfg.Timeout = time.Minute
	fail := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status); _, _ = io.WriteString(w, body) }
	}
	kinds := []struct {
		handler http.HandlerFunc
		want    Fault
	}{
		{after(0), Fault{}},
		{fail(400, `{"error":{"message":"too long","type":"invalid_request_error","code":"context_length_exceeded"}}`), Fault{Kind: "http 400 context_length_exceeded", Message: "too long"}},
		{fail(404, `{"error":{"message":"none","type":"NotFoundError","code":404}}`), Fault{Kind: "http 404 NotFoundError", Message: "none"}},
		{fail(429, `{"error":{"message":"slow down","code":"rate_limit_exceeded"}}`), Fault{Kind: "http 429 rate_limit_exceeded", Message: "slow down"}},
		{fail(500, "oh\n no"), Fault{Kind: "http 500", Message: "oh no"}},
		{fail(502, `{"error":"text"}`), Fault{Kind: "http 502", Message: `"text"`}},
		{fail(200, `{"choices":[]}`), Fault{Kind: "no stream", Message: "the content is text/plain; charset=utf-8"}},
		{stream(event{0, delta("x")}, event{0, `{"error": {"message": "worker lost", "type": "server_error", "code": null}}`}), Fault{Kind: "error event server_error", Message: "worker lost"}},
		{stream(event{0, delta("x")}), Fault{Kind: "ended early", Message: "EOF"}},
		{stream(event{0, delta("x")}, event{0, `{"choices`}), Fault{Kind: "malformed event", Message: `{"choices`}},
		{stream(event{0, role}, event{0, ended}), Fault{Kind: "no text", Message: "the answer has no event with text"}},
		{stream(event{0, delta("x")}, event{2 * time.Minute, ended}), Fault{Kind: "timeout", Message: "context deadline exceeded"}},
		{func(w http.ResponseWriter, r *http.Request) {
			stream(event{0, delta("x")})(w, r)
			panic(http.ErrAbortHandler)
		}, Fault{Kind: "ended early", Message: "unexpected EOF"}},
	}
	cfg.Requests = len(kinds)
	var next atomic.Int64
	handler := func(w http.ResponseWriter, r *http.Request) { kinds[next.Add(1)-1].handler(w, r) }
	against(t, cfg, handler, func(r *Result, err error) {
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]Fault{}
		for _, f := range r.Faults {
			got[f.Kind] = f
		}
		for _, k := range kinds[1:] {
			f, ok := got[k.want.Kind]
			want := 1
			if k.want.Kind == "ended early" {
				want = 2
			}
			if !ok || f.Count != want || (want == 1 && f.Message != k.want.Message) {
				t.Errorf("%q is %+v, want %d of %q", k.want.Kind, f, want, k.want.Message)
			}
		}
		if len(r.Samples) != 1 || r.Failed() != len(kinds)-1 || r.Limited != 1 || r.Faults[0].Kind != "ended early" {
			t.Errorf("%d samples, %d failed, %d limited, first %q", len(r.Samples), r.Failed(), r.Limited, r.Faults[0].Kind)
		}
	})
}

func TestARequestIsSentAgainOnlyIfAsked(t *testing.T) {
	for retry, want := range []Result{
		{Limited: 1, Faults: []Fault{{Kind: "http 429", Count: 1}}},
		{Limited: 2, Faults: []Fault{{Kind: "http 429", Count: 1}}},
		{Limited: 2, Samples: []Sample{{TTFT: 5 * time.Second, EndToEnd: 5 * time.Second, Chunks: 2, Input: 7, Output: 1, Cached: 2, Counted: true, Limited: 2}}},
	} {
		cfg := config()
		cfg.Requests, cfg.Retry = 1, retry
		var requests atomic.Int64
		handler := func(w http.ResponseWriter, r *http.Request) {
			if requests.Add(1) > 2 {
				after(time.Second)(w, r)
				return
			}
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(429)
		}
		against(t, cfg, handler, func(r *Result, err error) {
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, Result{Limited: r.Limited, Faults: r.Faults, Samples: r.Samples}); diff != "" {
				t.Errorf("retry %d (-want +got):\n%s", retry, diff)
			}
		})
	}
}

func TestAnInterruptKeepsWhatWasMeasured(t *testing.T) {
	closed, open := config(), config()
	closed.Concurrency, closed.Requests = 2, 1000
	open.Rate, open.Arrivals, open.Requests = 2, Fixed, 1000
	for _, c := range []struct {
		cfg                 Config
		samples, unfinished int
	}{{closed, 4, 2}, {open, 4, 2}} { // open: at 0, 0.5, …; those of 2 s and 2.5 s have not ended at 2.7 s
		interrupted(t, 2700*ms, c.cfg, after(time.Second), func(r *Result, err error) {
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Samples) != c.samples || r.Unfinished != c.unfinished || !r.Interrupted || r.Failed() != 0 || r.Elapsed != 2700*ms {
				t.Errorf("%s: %d samples, %d unfinished, %d failed, interrupted %v, in %v", c.cfg.Case(), len(r.Samples), r.Unfinished, r.Failed(), r.Interrupted, r.Elapsed)
			}
		})
	}
}

func TestRequestsHaveWhatWasAskedFor(t *testing.T) {
	cfg := config()
	temperature := 0.5
	cfg.Model, cfg.Requests, cfg.IgnoreEOS, cfg.Temperature, cfg.APIKey = "", 1, true, &temperature, "secret"
	cfg.URL, cfg.Header = "http://host/base/v1/", http.Header{"X-Tenant": {"a"}}
	cfg.ISL, cfg.OSL = FixedLength(3), FixedLength(5)
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" || r.Header.Get("X-Tenant") != "a" {
			t.Errorf("headers of %s are %v", r.URL.Path, r.Header)
		}
		if r.URL.Path == "/base/v1/models" {
			_, _ = io.WriteString(w, `{"data":[{"id":"first \"model\""},{"id":"second"}]}`)
			return
		}
		if r.URL.Path != "/base/v1/chat/completions" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("path is %s, type %s", r.URL.Path, r.Header.Get("Content-Type"))
		}
		var got map[string]any
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		content := got["messages"].([]any)[0].(map[string]any)["content"].(string)
		if words := strings.Fields(content); len(words) != 3 {
			t.Errorf("the prompt is %q", content)
		}
		delete(got, "messages")
		want := map[string]any{
			"model": `first "model"`, "stream": true, "stream_options": map[string]any{"include_usage": true},
			"max_tokens": 5.0, "temperature": 0.5, "ignore_eos": true,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		after(0)(w, r)
	}
	against(t, cfg, handler, func(r *Result, err error) {
		if err != nil || len(r.Samples) != 1 || r.Model != `first "model"` {
			t.Errorf("%d samples of %q, %v", len(r.Samples), r.Model, err)
		}
	})
}

func TestExtrasAreNotSentUnasked(t *testing.T) {
	cfg := config()
	cfg.Endpoint, cfg.Stream = Completions, false
	p, err := newPrompts(&cfg, "m", 1)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ISL = FixedLength(1)
	got := string(p.body(nil, 0))
	for _, word := range cfg.Vocabulary {
		got = strings.Replace(got, `"`+word+`"`, `"word"`, 1)
	}
	if want := `{"model":"m","prompt":"word","max_tokens":64}`; got != want {
		t.Errorf("the body is %s, want %s", got, want)
	}
}

func TestTokensOfAWordAreMeasured(t *testing.T) {
	cfg := config()
	cfg.ISLUnit, cfg.ISL, cfg.Requests = Tokens, FixedLength(600), 1
	words := 0
	handler := func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Messages []struct{ Content string } }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		words = len(strings.Fields(body.Messages[0].Content))
		stream(event{0, delta("x")}, event{0, counted(30+3*words, 1, 0)}, event{0, ended})(w, r)
	}
	against(t, cfg, handler, func(r *Result, err error) {
		if err != nil || words != 200 {
			t.Errorf("%d words, %v; want 200 of three tokens", words, err)
		}
	})
}

func TestProgressGoesFromNoneToAll(t *testing.T) {
	cfg := config()
	cfg.Requests = 10
	var shares []float64
	cfg.Progress = func(p Progress) { shares = append(shares, p.Share) }
	against(t, cfg, after(time.Second), func(_ *Result, err error) {
		if err != nil || len(shares) < 95 || shares[0] != 0 || shares[len(shares)-1] < 0.9 {
			t.Errorf("%v, %v", shares, err)
		}
	})
}
