package processor_test

import (
	"context"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/switchyard-llm/switchyard/libs/gguf"
	"github.com/switchyard-llm/switchyard/libs/modelstore/modeltest"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	"github.com/switchyard-llm/switchyard/services/processor"
	"github.com/switchyard-llm/switchyard/services/processor/prompt"
	"github.com/switchyard-llm/switchyard/services/processor/workertest"
)

// The first of the reference prompts, with the model's own default system message.
const (
	capitalText = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n" +
		"<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
)

func capitalTokens() []uint32 {
	return []uint32{
		1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018, 411, 407, 19712, 8182, 2, 198,
		1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47, 2, 198, 1, 520, 9531, 198,
	}
}

func TestTheModelSeesTheReferenceTokens(t *testing.T) {
	file, err := gguf.Open(modeltest.TestModel(t))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	m, err := processor.NewModel(file, "m")
	if err != nil {
		t.Fatal(err)
	}
	b := prompt.New(prompt.Config{Tokenizer: m.Tokenizer, Template: m.Template, BOS: m.BOS, EOS: m.EOS, DefaultMaxTokens: 1024})
	for name, req := range map[string]*generationv1.Request{
		"chat": {Input: chat("user", "What is the capital of France?")},
		"text": {Input: &generationv1.Request_Text{Text: capitalText}},
	} {
		req.Sampling = &generationv1.Sampling{Seed: new(uint64)}
		s, err := b.Build(t.Context(), req, m.ContextTokens)
		if err != nil || !slices.Equal(s.GetPrompt(), capitalTokens()) {
			t.Errorf("%s: %v, %v; want %v", name, s.GetPrompt(), err, capitalTokens())
		}
		if !slices.Equal(s.GetStopTokens(), []uint32{0, 2}) || s.GetMaxTokens() != 1024 {
			t.Errorf("%s: stop tokens %v, max_tokens %d", name, s.GetStopTokens(), s.GetMaxTokens())
		}
	}
}

func TestTheStepsAreTracedAndCounted(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	reader := metric.NewManualReader()
	w := workertest.Start(t, "w", nil)
	h := start(t, options{
		tracer: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
		meter:  metric.NewMeterProvider(metric.WithReader(reader)),
	}, w)
	if r := h.generate(t.Context(), request("hello", 5)); r.err != nil {
		t.Fatal(r.err)
	}
	if next(t, w).GetSubmit().GetTraceContext() != nil {
		t.Error("a request without a span has a trace context") // the server of the test makes none
	}
	h.stop()
	counts := map[string]map[attribute.Key]int64{}
	for _, s := range spans.Ended() {
		counts[s.Name()] = map[attribute.Key]int64{}
		for _, a := range s.Attributes() {
			counts[s.Name()][a.Key] = a.Value.AsInt64()
		}
	}
	for name, want := range map[string]map[attribute.Key]int64{
		"processor.prompt": {"switchyard.prompt_tokens": 5},
		"processor.route":  {"attempt": 1, "candidates": 1},
		"processor.output": {"switchyard.generated_tokens": 5, "switchyard.chunks": 5, "switchyard.attempts": 1},
	} {
		for key, n := range want {
			if got, ok := counts[name][key]; !ok || got != n {
				t.Errorf("span %s has %s = %d, %v; want %d", name, key, got, ok, n)
			}
		}
	}
	if got := sums(t, reader); got["switchyard.processor.requests"] != 1 || got["switchyard.processor.requests.active"] != 0 ||
		got["switchyard.processor.prompt.tokens"] != 5 || got["switchyard.processor.picks"] != 1 {
		t.Errorf("counters are %v", got)
	}
}

func sums(t *testing.T, reader metric.Reader) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.WithoutCancel(t.Context()), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if sum, ok := m.Data.(metricdata.Sum[int64]); ok {
				for _, p := range sum.DataPoints {
					got[m.Name] += p.Value
				}
			}
		}
	}
	return got
}
