package openai

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// twin is a random request in both forms.
type twin struct {
	*rand.Rand
	body map[string]any
	req  *generationv1.Request
}

// maybe does something for half of the requests.
func (w *twin) maybe(set func()) {
	if w.IntN(2) == 0 {
		set()
	}
}

func (w *twin) float(name string, to **float32, low, high float32) {
	w.maybe(func() {
		v := low + (high-low)*w.Float32()
		*to = &v
		w.body[name] = json.Number(strconv.FormatFloat(float64(v), 'g', -1, 32))
	})
}

func (w *twin) flag(name string, to *bool) {
	w.maybe(func() {
		*to = w.IntN(2) == 0
		w.body[name] = *to
	})
}

func (w *twin) ids(n int) []uint32 {
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = w.Uint32()
	}
	return ids
}

func (w *twin) text() string { return fmt.Sprintf("text %d é\n\"", w.Int()) }

// newTwin makes what both endpoints have.
func newTwin(seed uint64) *twin {
	w := &twin{Rand: rand.New(rand.NewPCG(seed, 1)), body: map[string]any{"model": "m"}}
	w.req = &generationv1.Request{Model: "m", Sampling: &generationv1.Sampling{}, Limits: &generationv1.Limits{}}
	s, l := w.req.Sampling, w.req.Limits
	w.float("temperature", &s.Temperature, 0, 2)
	w.float("top_p", &s.TopP, .01, 1)
	w.float("min_p", &s.MinP, 0, 1)
	w.float("repetition_penalty", &s.RepetitionPenalty, .01, 10)
	w.float("frequency_penalty", &s.FrequencyPenalty, -2, 2)
	w.float("presence_penalty", &s.PresencePenalty, -2, 2)
	w.maybe(func() { s.TopK = ptr(w.Uint32()); w.body["top_k"] = *s.TopK })
	w.maybe(func() { v := w.Int64() - w.Int64(); s.Seed = ptr(uint64(v)); w.body["seed"] = v })
	w.maybe(func() {
		s.LogitBias = []*generationv1.LogitBias{{Token: w.Uint32(), Bias: float32(w.IntN(201) - 100)}}
		w.body["logit_bias"] = map[string]any{fmt.Sprint(s.LogitBias[0].Token): s.LogitBias[0].Bias}
	})
	w.maybe(func() { l.MaxTokens = ptr(100 + w.Uint32N(1000)); w.body["max_tokens"] = *l.MaxTokens })
	w.maybe(func() { l.MinTokens = w.Uint32N(100); w.body["min_tokens"] = l.MinTokens })
	w.maybe(func() { l.Stop = []string{w.text(), w.text()}; w.body["stop"] = l.Stop })
	w.maybe(func() { l.StopTokenIds = w.ids(1 + w.IntN(64)); w.body["stop_token_ids"] = l.StopTokenIds })
	w.flag("ignore_eos", &l.IgnoreEos)
	w.flag("include_stop_str_in_output", &l.IncludeStop)
	w.maybe(func() { w.req.Choices = 1 + w.Uint32N(128); w.body["n"] = w.req.Choices })
	w.flag("return_token_ids", &w.req.ReturnTokenIds)
	w.flag("stream", &w.req.Stream)
	w.maybe(func() { w.req.SpecialTokens = true; w.body["skip_special_tokens"] = false })
	w.maybe(func() { w.req.CacheSalt = w.text(); w.body["cache_salt"] = w.req.CacheSalt })
	w.maybe(func() { w.req.Priority = w.Int32() - w.Int32(); w.body["priority"] = w.req.Priority })
	return w
}

func (w *twin) chat() {
	c := &generationv1.Chat{Messages: []*generationv1.Message{{Role: "user", Content: w.text()}}}
	w.req.Input = &generationv1.Request_Chat{Chat: c}
	w.body["messages"] = []any{map[string]any{"role": "user", "content": c.Messages[0].Content}}
	w.flag("continue_final_message", &c.ContinueFinalMessage)
	if !c.ContinueFinalMessage {
		w.maybe(func() {
			c.AddGenerationPrompt = ptr(w.IntN(2) == 0)
			w.body["add_generation_prompt"] = *c.AddGenerationPrompt
		})
	}
	w.maybe(func() {
		c.TemplateVariables = fmt.Appendf(nil, `{"x":%d}`, w.Int())
		w.body["chat_template_kwargs"] = json.RawMessage(c.TemplateVariables)
	})
	w.maybe(func() { c.ReasoningEffort = "xhigh"; w.body["reasoning_effort"] = "xhigh" })
	w.maybe(func() {
		w.req.Logprobs = ptr(w.Uint32N(21))
		w.body["logprobs"], w.body["top_logprobs"] = true, *w.req.Logprobs
	})
	w.maybe(func() { w.req.Session = w.text(); w.body["prompt_cache_key"] = w.req.Session })
}

func (w *twin) completion() {
	w.maybe(func() {
		w.req.BestOf = w.best()
		w.body["best_of"] = w.req.BestOf
	})
	if w.flag("echo", &w.req.Echo); !w.req.Echo {
		w.maybe(func() { w.req.Logprobs = ptr(w.Uint32N(6)); w.body["logprobs"] = *w.req.Logprobs })
	}
	text, ids := w.text(), w.ids(3)
	switch w.IntN(4) {
	case 0:
		w.req.Input, w.body["prompt"] = &generationv1.Request_Text{Text: text}, text
	case 1:
		w.req.Input, w.body["prompt"] = tokenIDs(ids...), ids
	case 2:
		one := &generationv1.Prompt{Prompt: &generationv1.Prompt_Text{Text: text}}
		w.req.Input, w.body["prompt"] = prompted(one, one), []string{text, text}
	case 3:
		one := &generationv1.Prompt{Prompt: &generationv1.Prompt_TokenIds{TokenIds: &generationv1.TokenIds{Ids: ids}}}
		w.req.Input, w.body["prompt"] = prompted(one, one, one), [][]uint32{ids, ids, ids}
	}
}

func (w *twin) best() uint32 {
	n := Choices(w.req)
	if w.req.Stream {
		return n
	}
	return n + w.Uint32N(maxChoices-n+1)
}

// Whatever a client asks for in JSON is what a typed caller would ask for, and both pass.
func TestRandomRequestsMeanTheSameInBothForms(t *testing.T) {
	for seed := range uint64(2000) {
		for _, c := range []struct {
			make  func(*twin)
			parse func([]byte, *Ignored) (*generationv1.Request, error)
			check func(*generationv1.Request) error
		}{{(*twin).chat, ParseChat, CheckChat}, {(*twin).completion, ParseCompletion, CheckCompletion}} {
			w := newTwin(seed)
			c.make(w)
			body, err := json.Marshal(w.body)
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.parse(body, nil)
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed, body, err)
			}
			if diff := cmp.Diff(w.req, got, protocmp.Transform()); diff != "" {
				t.Fatalf("seed %d: %s (-typed +parsed):\n%s", seed, body, diff)
			}
			if err := c.check(w.req); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
	}
}
