package frontend_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"

	frontendv1 "github.com/switchyard-llm/switchyard/proto/switchyard/frontend/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

const stopped = generationv1.FinishReason_FINISH_REASON_STOP

// said is an answer, whole or put together from events.
type said struct {
	ID      string
	Choices []struct {
		Index   int
		Text    string
		Message struct{ Content string }
		Delta   struct{ Content string }
		Finish  *string `json:"finish_reason"`
		Logprob *struct {
			Tokens []string
		} `json:"logprobs"`
	}
	Usage *struct {
		Prompt     int                         `json:"prompt_tokens"`
		Completion int                         `json:"completion_tokens"`
		Details    struct{ Cached_tokens int } `json:"prompt_tokens_details"`
	}
}

// joined gives the text of each choice, and the usage as "prompt+completion, cached". A choice
// without exactly one end has "?" behind it.
func joined(t testing.TB, body string) (texts []string, usage string) {
	t.Helper()
	parts, ends := map[int]string{}, map[int]int{}
	for line := range strings.SplitSeq(strings.TrimSuffix(body, "data: [DONE]\n\n"), "\n\n") {
		if line == "" {
			continue
		}
		var a said
		if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &a); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		for _, c := range a.Choices {
			parts[c.Index] += c.Text + c.Message.Content + c.Delta.Content
			if c.Finish != nil {
				ends[c.Index]++
			}
		}
		if a.Usage != nil {
			usage = fmt.Sprintf("%d+%d, %d", a.Usage.Prompt, a.Usage.Completion, a.Usage.Details.Cached_tokens)
		}
	}
	for i := range len(parts) {
		if ends[i] != 1 {
			parts[i] += "?"
		}
		texts = append(texts, parts[i])
	}
	return texts, usage
}

const streamed = `,"stream":true,"stream_options":{"include_usage":true}`

func TestSeveralChoices(t *testing.T) {
	p := &processor{}
	url := serve(t, p, nil)
	for _, more := range []string{``, streamed} {
		_, body := post(t, url+"/v1/chat/completions", chatBody("one two", `,"n":3`+more))
		texts, usage := joined(t, body)
		if diff := cmp.Diff([]string{"one two", "one two", "one two"}, texts); diff != "" || usage != "7+6, 4" {
			t.Errorf("%s: usage %s, texts (-want +got):\n%s", body, usage, diff)
		}
		if p.request().GetChoices() != 3 {
			t.Errorf("the processor was asked for %v", p.request())
		}
	}
}

// record keeps all requests of a processor that echoes.
func record(p *processor) func() map[string]*generationv1.Request {
	var mu sync.Mutex
	all := map[string]*generationv1.Request{}
	p.handler = func(in *generationv1.Request, out sender) error {
		mu.Lock()
		all[in.GetRequestId()] = in
		mu.Unlock()
		return echo(in, out)
	}
	return func() map[string]*generationv1.Request {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

func TestSeveralPrompts(t *testing.T) {
	for _, more := range []string{``, streamed} {
		p := &processor{}
		requests := record(p)
		url := serve(t, p, nil)
		_, body := post(t, url+"/v1/completions", `{"model":"acme/echo","prompt":["a b","c","d"],"n":2,"cache_salt":"s","priority":-3`+more+`}`)
		texts, usage := joined(t, body)
		if diff := cmp.Diff([]string{"a b", "a b", "c", "c", "d", "d"}, texts); diff != "" || usage != "21+8, 12" {
			t.Errorf("usage %s, texts (-want +got):\n%s", usage, diff)
		}
		var seed uint64
		for i, text := range []string{"a b", "c", "d"} {
			var id string
			for name := range requests() {
				if strings.HasSuffix(name, fmt.Sprintf("-%d", i)) {
					id = name
				}
			}
			r := requests()[id]
			if i == 0 {
				seed = r.GetSampling().GetSeed()
			}
			if r.GetText() != text || r.GetChoices() != 2 || r.GetSampling().GetSeed() != seed || r.GetCacheSalt() != "s" || r.GetPriority() != -3 {
				t.Errorf("prompt %d: %v", i, r)
			}
			if !strings.Contains(body, `"id":"`+strings.TrimSuffix(id, fmt.Sprintf("-%d", i))+`"`) {
				t.Errorf("id %q, answer %s", id, body)
			}
		}
		_, body = post(t, url+"/v1/completions", `{"model":"acme/echo","prompt":[[1],[2,3]]`+more+`}`)
		if texts, _ := joined(t, body); !cmp.Equal(texts, []string{"t", "tt"}) {
			t.Errorf("texts %q", texts)
		}
	}
}

// One prompt in an array is a request like another, with the client's own id.
func TestOneTypedPromptKeepsTheID(t *testing.T) {
	p := &processor{}
	client := start(t, p)
	stream, err := client.Completions(t.Context(), &frontendv1.CompletionsRequest{Request: &frontendv1.CompletionsRequest_Typed{Typed: &generationv1.Request{
		RequestId: "mine", Model: model, Input: &generationv1.Request_Prompts{Prompts: &generationv1.Prompts{
			Prompts: []*generationv1.Prompt{{Prompt: &generationv1.Prompt_Text{Text: "x"}}},
		}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := stream.Recv(); err != nil || m.GetCompletion().GetChoices()[0].GetText() != "x" {
		t.Fatalf("%v, %v", m, err)
	}
	if r := p.request(); r.GetRequestId() != "mine" || r.GetText() != "x" || r.GetPrompts() != nil {
		t.Errorf("request %v", r)
	}
}

func TestManyPromptsGoAFewAtATime(t *testing.T) {
	var mu sync.Mutex
	now, most := 0, 0
	full := make(chan struct{})
	p := &processor{handler: func(in *generationv1.Request, out sender) error {
		mu.Lock()
		if now++; now > most {
			most = now
		}
		if now == 64 && full != nil {
			close(full)
			full = nil
		}
		wait := full
		mu.Unlock()
		if wait != nil { // until as many are here as may be
			select {
			case <-wait:
			case <-out.Context().Done():
			}
		}
		defer func() {
			mu.Lock()
			now--
			mu.Unlock()
		}()
		return echo(in, out)
	}}
	url := serve(t, p, nil)
	var prompts []string
	for i := range 300 {
		prompts = append(prompts, fmt.Sprintf("p%d", i))
	}
	list, _ := json.Marshal(prompts)
	_, body := post(t, url+"/v1/completions", `{"model":"acme/echo","prompt":`+string(list)+`}`)
	texts, usage := joined(t, body)
	if diff := cmp.Diff(prompts, texts); diff != "" || usage != "2100+300, 1200" || most != 64 {
		t.Errorf("%d at a time, usage %s (-want +got):\n%s", most, usage, diff)
	}
}

// candidates answers with choices of given mean log-probabilities; NaN-free nil is empty.
func candidates(means ...[]float32) func(*generationv1.Request, sender) error {
	return func(in *generationv1.Request, out sender) error {
		if int(in.GetChoices()) != len(means) || in.Logprobs == nil || in.GetBestOf() > 0 {
			return fmt.Errorf("request %v", in)
		}
		for i, logprobs := range means {
			for j, logprob := range logprobs {
				text := fmt.Sprintf("%d%c", i, 'a'+j)
				if err := send(out, &generationv1.Chunk{Choice: uint32(i), Text: text, Logprobs: []*generationv1.TokenLogProb{{Text: []byte(text), Logprob: logprob}}}); err != nil {
					return err
				}
			}
			if err := endFor(out, uint32(i), stopped, uint32(len(logprobs))); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestTheBestAreKept(t *testing.T) {
	p := &processor{handler: candidates([]float32{-3, -1}, nil, []float32{-1.5}, []float32{-2}, []float32{-9, -9})}
	url := serve(t, p, nil) + "/v1/completions"
	for _, c := range []struct {
		more string
		want []string
	}{
		{`,"best_of":5`, []string{"2a"}},
		{`,"best_of":5,"n":3`, []string{"2a", "0a0b", "3a"}}, // 0 and 3 are equal
		{`,"best_of":5,"n":4`, []string{"2a", "0a0b", "3a", "4a4b"}},
		{`,"best_of":5,"n":2,"logprobs":2`, []string{"2a", "0a0b"}},
	} {
		_, body := post(t, url, `{"model":"acme/echo","prompt":"hi "`+c.more+`}`)
		texts, usage := joined(t, body)
		if diff := cmp.Diff(c.want, texts); diff != "" || usage != "7+6, 4" {
			t.Errorf("%s: %s: usage %s (-want +got):\n%s", c.more, body, usage, diff)
		}
		if asked := strings.Contains(c.more, "logprobs"); asked != strings.Contains(body, `"token_logprobs":[-1.5]`) || !asked && strings.Count(body, `"logprobs":null`) != len(c.want) {
			t.Errorf("%s: %s", c.more, body)
		}
	}
	_, body := post(t, url, `{"model":"acme/echo","prompt":[[104,105],[33]],"best_of":5,"echo":true}`)
	if texts, usage := joined(t, body); !cmp.Equal(texts, []string{"2a", "2a"}) || usage != "14+12, 8" || !p.request().GetEcho() {
		t.Errorf("%s", body)
	}
}

func TestEchoIsPassedOn(t *testing.T) {
	p := &processor{}
	url := serve(t, p, nil)
	for _, more := range []string{``, streamed} {
		_, body := post(t, url+"/v1/completions", `{"model":"acme/echo","prompt":["a b","c"],"n":2,"echo":true`+more+`}`)
		if texts, _ := joined(t, body); !cmp.Equal(texts, []string{"echo: a b", "echo: a b", "echo: c", "echo: c"}) {
			t.Errorf("texts %q", texts)
		}
	}
}

// full sets every field of a request that is no input.
func full(input *generationv1.Request) *generationv1.Request {
	fill(input.ProtoReflect())
	return input
}

func fill(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case f.ContainingOneof() != nil && !f.ContainingOneof().IsSynthetic(), f.IsList():
		case f.Message() != nil:
			fill(m.Mutable(f).Message())
		case f.Kind() == protoreflect.BoolKind:
			m.Set(f, protoreflect.ValueOfBool(true))
		case f.Kind() == protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString("x"))
		case f.Kind() == protoreflect.FloatKind:
			m.Set(f, protoreflect.ValueOfFloat32(1))
		case f.Kind() == protoreflect.Uint32Kind:
			m.Set(f, protoreflect.ValueOfUint32(2))
		case f.Kind() == protoreflect.Sint32Kind:
			m.Set(f, protoreflect.ValueOfInt32(-2))
		case f.Kind() == protoreflect.Uint64Kind:
			m.Set(f, protoreflect.ValueOfUint64(3))
		default:
			panic(f.FullName())
		}
	}
}

// No field of a request is lost on its way to the processor.
func TestTheProcessorGetsTheWholeRequest(t *testing.T) {
	p := &processor{handler: func(in *generationv1.Request, out sender) error {
		for choice := range in.GetChoices() {
			if err := endFor(out, choice, stopped, 1); err != nil {
				return err
			}
		}
		return nil
	}}
	client := start(t, p)
	ask := func(r *generationv1.Request) {
		t.Helper()
		stream, err := client.Completions(t.Context(), &frontendv1.CompletionsRequest{Request: &frontendv1.CompletionsRequest_Typed{Typed: r}})
		for err == nil {
			_, err = stream.Recv()
		}
		if err != io.EOF {
			t.Fatal(err)
		}
	}
	for _, several := range []bool{false, true} {
		r := full(&generationv1.Request{Input: &generationv1.Request_Text{Text: "hi"}})
		r.Logprobs = nil // not with echo
		r.Sampling.LogitBias = []*generationv1.LogitBias{{Token: 1, Bias: 2}}
		r.Limits.Stop, r.Limits.StopTokenIds = []string{"s"}, []uint32{9}
		want := full(&generationv1.Request{Input: r.Input})
		want.Logprobs, want.Sampling, want.Limits, want.BestOf = nil, r.Sampling, r.Limits, 0
		if several {
			one := &generationv1.Prompt{Prompt: &generationv1.Prompt_Text{Text: "hi"}}
			r.Input, want.RequestId = &generationv1.Request_Prompts{Prompts: &generationv1.Prompts{Prompts: []*generationv1.Prompt{one, one}}}, "x-0"
		}
		ask(r)
		got := p.request()
		if several {
			want.RequestId = got.GetRequestId()
		}
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Errorf("several: %v (-want +got):\n%s", several, diff)
		}
	}
}

// What the processor must not send ends the answer, once.
func TestBrokenChoices(t *testing.T) {
	finish := func(choice uint32) func(sender) error {
		return func(out sender) error { return endFor(out, choice, stopped, 1) }
	}
	word := func(choice uint32) func(sender) error {
		return func(out sender) error { return sayFor(out, choice, "x") }
	}
	for name, steps := range map[string][]func(sender) error{
		"an unknown choice":     {word(0), word(2)},
		"a huge choice":         {word(1<<32 - 1)},
		"a choice without end":  {word(0), word(1), finish(1)},
		"a choice without word": {word(0), finish(0)},
		"after the last":        {word(0), finish(0), word(0), finish(1)},
		"two ends":              {finish(0), finish(0)},
		"an end that is none": {func(out sender) error {
			return endFor(out, 1, generationv1.FinishReason_FINISH_REASON_CANCELLED, 1)
		}},
	} {
		url := serve(t, &processor{handler: func(_ *generationv1.Request, out sender) error {
			for _, step := range steps {
				if err := step(out); err != nil {
					return err
				}
			}
			return nil
		}}, nil)
		for _, more := range []string{``, `,"stream":true`} {
			resp, body := post(t, url+"/v1/chat/completions", chatBody("x", `,"n":2`+more))
			if strings.Contains(body, "[DONE]") || strings.Count(body, `"internal_error"`) != 1 || more == "" && resp.StatusCode != http.StatusInternalServerError {
				t.Errorf("%s%s: %d %s", name, more, resp.StatusCode, body)
			}
		}
	}
}
