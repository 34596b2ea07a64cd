package frontend_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/switchyard-llm/switchyard/libs/rpc"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	"github.com/switchyard-llm/switchyard/services/frontend"
)

// prompts is a completion request of so many prompts, p0 and on.
func prompts(n int, more string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"p%d"`, i)
	}
	return `{"model":"` + model + `","prompt":[` + strings.TrimPrefix(b.String(), ",") + `]` + more + `}`
}

// The error of one prompt is that of the answer, and ends the others.
func TestAnErrorOfOnePromptEndsAll(t *testing.T) {
	for _, more := range []string{``, `,"stream":true`} {
		var begun, cancelled atomic.Int32
		all := make(chan struct{})
		p := &processor{handler: func(in *generationv1.Request, out sender) error {
			if in.GetText() != "p7" {
				if err := say(out, "x"); err != nil {
					return err
				}
				if begun.Add(1) == 9 {
					close(all)
				}
				<-out.Context().Done()
				cancelled.Add(1)
				return out.Context().Err()
			}
			<-all
			return rpc.InvalidArgument("prompt", "is too long")
		}}
		url := serve(t, p, nil)
		resp, body := post(t, url+"/v1/completions", prompts(10, more))
		events := strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n")
		e := failureOf(t, strings.TrimPrefix(events[len(events)-1], "data: "))
		if deref(e.Param) != "prompt[7]" || !strings.Contains(e.Message, "too long") || strings.Count(body, `"error"`) != 1 || strings.Contains(body, "[DONE]") {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
		if more == "" && resp.StatusCode != http.StatusBadRequest {
			t.Errorf("status %d", resp.StatusCode)
		}
		if n := cancelled.Load(); n != 9 {
			t.Errorf("%d of 9 others were cancelled when the answer had ended", n)
		}
	}
}

// An error that comes first has its status, though other prompts would go on.
func TestAnErrorOfOnePromptHasItsStatus(t *testing.T) {
	for _, more := range []string{``, `,"stream":true`} {
		p := &processor{handler: func(in *generationv1.Request, out sender) error {
			if in.GetText() == "p3" {
				return rpc.ResourceExhausted("full", time.Second)
			}
			<-out.Context().Done()
			return out.Context().Err()
		}}
		url := serve(t, p, nil)
		resp, body := post(t, url+"/v1/completions", prompts(200, more))
		if e := failureOf(t, body); resp.StatusCode != http.StatusTooManyRequests || deref(e.Code) != "rate_limit_exceeded" {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
	}
}

func TestAPanicOfOnePromptIsA500(t *testing.T) {
	url := serve(t, &processor{}, func(_ *frontend.Config, d *frontend.Deps) { d.Processor = panicking{d.Processor} })
	resp, body := post(t, url+"/v1/completions", prompts(3, ``))
	if e := failureOf(t, body); resp.StatusCode != http.StatusInternalServerError || strings.Contains(e.Message, "boom") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

// A client that leaves ends all its prompts, and those that wait do not begin.
func TestALeavingClientEndsAllPrompts(t *testing.T) {
	for _, more := range []string{``, `,"stream":true`} {
		begun, ended := make(chan struct{}, 100), make(chan struct{}, 100)
		p := &processor{handler: func(_ *generationv1.Request, out sender) error {
			if err := say(out, "x"); err != nil {
				return err
			}
			begun <- struct{}{}
			<-out.Context().Done()
			ended <- struct{}{}
			return out.Context().Err()
		}}
		url := serve(t, p, nil)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for range 64 {
				<-begun
			}
			cancel()
		}()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/completions", strings.NewReader(prompts(100, more)))
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := http.DefaultClient.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body) // until it is cut off
			_ = resp.Body.Close()
		}
		for range 64 {
			<-ended
		}
		if n := len(begun); n > 0 {
			t.Errorf("%d more prompts began", n)
		}
	}
}

// What waits for a slow client is bounded for the request, not for each prompt of it.
func TestASlowClientHoldsUpAllPrompts(t *testing.T) {
	var sent, ended atomic.Int64
	p := &processor{handler: func(_ *generationv1.Request, out sender) error {
		defer ended.Add(1)
		for {
			if err := say(out, strings.Repeat("x", 1000)); err != nil {
				return err
			}
			sent.Add(1)
		}
	}}
	change := func(c *frontend.Config, _ *frontend.Deps) { c.WriteTimeout = 30 * time.Second }
	bubble(t, p, change, func(lis *pipeListener) {
		conn := lis.post(t, "/v1/completions", prompts(8, `,"stream":true`))
		defer conn.Close()
		synctest.Wait() // the client does not read
		// 64 wait, 64 are being written, and each prompt may hold one or two.
		if n := sent.Load(); n < 10 || n > 144 || ended.Load() > 0 {
			t.Errorf("%d chunks of 1 kB were taken for a stuck client, %d prompts ended", n, ended.Load())
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if n := ended.Load(); n != 8 {
			t.Errorf("%d of 8 prompts ended for a client that took nothing for longer than write_timeout", n)
		}
	})
}

// All prompts may have ended while a slow client was written to.
func TestWhatWaitsAtTheEndIsPassedOn(t *testing.T) {
	bubble(t, &processor{}, nil, func(lis *pipeListener) {
		conn := lis.post(t, "/v1/completions", prompts(20, `,"stream":true`))
		defer conn.Close()
		synctest.Wait() // the client does not read
		status, body, _ := conn.answer(t)
		if n := strings.Count(body, `"finish_reason":"stop"`); status != http.StatusOK || n != 20 || !strings.HasSuffix(body, "data: [DONE]\n\n") {
			t.Errorf("%d, %d of 20 prompts ended: %s", status, n, body)
		}
	})
}

// A word of any choice breaks the silence; when none comes the answer ends.
func TestTheSilenceOfSeveralChoices(t *testing.T) {
	p := &processor{handler: func(_ *generationv1.Request, out sender) error {
		if err := sayFor(out, 0, "first"); err != nil {
			return err
		}
		for range 5 { // choice 0 is silent for longer than the bound
			time.Sleep(50 * time.Second)
			if err := sayFor(out, 1, "x"); err != nil {
				return err
			}
		}
		if err := endFor(out, 1, stopped, 5); err != nil {
			return err
		}
		<-out.Context().Done()
		return out.Context().Err()
	}}
	bubble(t, p, nil, func(lis *pipeListener) {
		for _, more := range []string{`,"n":2`, `,"n":2,"stream":true`} {
			status, body, took := lis.ask(t, chatBody("x", more))
			if took != 311*time.Second || !strings.Contains(body, `"code":"timeout"`) || strings.Contains(body, "[DONE]") || more == `,"n":2` && status != http.StatusGatewayTimeout {
				t.Errorf("%d after %v: %s", status, took, body)
			}
		}
	})
}

// Prompts that wait for others to end may wait in queues again: that is no silence.
func TestWaitingPromptsAreNoSilence(t *testing.T) {
	p := &processor{handler: func(in *generationv1.Request, out sender) error {
		if in.GetText() == "p64" { // the first that had to wait
			select {
			case <-time.After(5 * time.Minute):
			case <-out.Context().Done():
				return out.Context().Err()
			}
		}
		return echo(in, out)
	}}
	for _, c := range []struct {
		timeout time.Duration
		status  int
		took    time.Duration
	}{
		{0, http.StatusOK, 5 * time.Minute},
		{2 * time.Minute, http.StatusGatewayTimeout, 2 * time.Minute},
	} {
		bubble(t, p, func(cfg *frontend.Config, _ *frontend.Deps) { cfg.FirstToken = c.timeout }, func(lis *pipeListener) {
			conn := lis.post(t, "/v1/completions", prompts(65, ``))
			defer conn.Close()
			if status, body, took := conn.answer(t); status != c.status || took != c.took {
				t.Errorf("%v: %d after %v: %s", c.timeout, status, took, body)
			}
		})
	}
}

// The metrics of a request count its prompts once and its choices each.
func TestMetricsOfSeveralChoices(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	url := serve(t, &processor{}, func(_ *frontend.Config, d *frontend.Deps) {
		d.Meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	})
	post(t, url+"/v1/completions", `{"model":"acme/echo","prompt":["a b","c d"],"n":3}`)
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			got[m.Name] = data.DataPoints[0].Value
		case metricdata.Histogram[float64]:
			if value, ok := data.DataPoints[0].Attributes.Value(attribute.Key("model")); !ok || value.AsString() != model || data.DataPoints[0].Count != 1 {
				t.Errorf("%s: %v", m.Name, data.DataPoints)
			}
			got[m.Name] = int64(data.DataPoints[0].Count)
		}
	}
	const scope = "switchyard.frontend."
	for name, want := range map[string]int64{
		"requests": 1, "prompt_tokens": 14, "cached_tokens": 8, "completion_tokens": 12,
		"time_to_first_token": 1, "inter_token_latency": 1, "request_duration": 1, "active_requests": 0,
	} {
		if got[scope+name] != want {
			t.Errorf("%s is %d, want %d", name, got[scope+name], want)
		}
	}
}
