package processor_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/tokenizertest"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	"github.com/switchyard-llm/switchyard/services/processor"
	"github.com/switchyard-llm/switchyard/services/processor/router"
	"github.com/switchyard-llm/switchyard/services/processor/workertest"
)

// texts joins the chunks of each choice, and makes sure that each ends once.
func texts(t *testing.T, r result, choices int) []string {
	t.Helper()
	if r.err != nil {
		t.Fatal(r.err)
	}
	got, ended := make([]string, choices), make([]bool, choices)
	for _, c := range r.chunks {
		i := int(c.GetChoice())
		if i >= choices || ended[i] {
			t.Fatalf("chunk %v, want one of %d choices that has not ended", c, choices)
		}
		got[i] += c.GetText()
		ended[i] = c.GetFinishReason() != generationv1.FinishReason_FINISH_REASON_UNSPECIFIED
		if ended[i] && c.GetUsage() == nil {
			t.Errorf("the last chunk of choice %d has no usage", i)
		}
	}
	if slices.Contains(ended, false) {
		t.Fatalf("choices have ended: %v", ended)
	}
	return got
}

func TestChoicesFollowTheFirstToItsWorkerAndRunTogether(t *testing.T) {
	// Each waits for its own word; the others must be there by then.
	arrived, goOn := make(chan uint32, 8), make(chan struct{})
	behave := func(ctx context.Context, s *workertest.Stream, sub *decodeworkerv1.Submit) {
		choice := sub.GetSequence().GetChoice()
		s.Batch(sub.GetSequenceId(), nil, tokenizertest.FirstByte+'0'+choice)
		arrived <- choice
		select {
		case <-goOn:
		case <-ctx.Done():
		}
		s.Batch(sub.GetSequenceId(), &decodeworkerv1.Ended{Reason: generationv1.FinishReason_FINISH_REASON_STOP}, tokenizertest.FirstByte+'x', tokenizertest.TurnEnd)
	}
	a, b := workertest.Start(t, "a", behave), workertest.Start(t, "b", behave)
	h := start(t, options{config: func(c *processor.Config) { c.Router.Policy = router.RoundRobin }}, a, b)
	for range 2 { // with each of the two as the first one's
		req := request("hello", 5)
		req.Choices = 4
		answer := h.open(t, req)
		var seen []uint32
		for range 4 {
			seen = append(seen, <-arrived)
		}
		if seen[0] != 0 {
			t.Errorf("choices began in the order %v, want the first before the others", seen)
		}
		for range 4 {
			goOn <- struct{}{}
		}
		r := answer.rest()
		if diff := cmp.Diff([]string{"0x", "1x", "2x", "3x"}, texts(t, r, 4)); diff != "" {
			t.Errorf("texts (-want +got):\n%s", diff)
		}
		worker := r.last().GetServed().GetDecodeWorker()
		for _, c := range r.chunks {
			if s := c.GetServed(); s != nil && s.GetDecodeWorker() != worker {
				t.Errorf("choice %d was served by %s, another one by %s", c.GetChoice(), s.GetDecodeWorker(), worker)
			}
		}
	}
}

func TestAChoiceThatFailsEndsTheOthers(t *testing.T) {
	stopped := make(chan struct{}, 3)
	w := workertest.Start(t, "w", func(ctx context.Context, s *workertest.Stream, sub *decodeworkerv1.Submit) {
		s.Batch(sub.GetSequenceId(), nil, tokenizertest.FirstByte+'a')
		if sub.GetSequence().GetChoice() == 2 {
			s.Batch(sub.GetSequenceId(), &decodeworkerv1.Ended{
				Reason: generationv1.FinishReason_FINISH_REASON_ERROR, Code: uint32(codes.InvalidArgument), Message: "broken",
			})
			return
		}
		<-ctx.Done()
		stopped <- struct{}{}
	})
	req := request("hello", 5)
	req.Choices = 3
	r := start(t, options{}, w).generate(t.Context(), req)
	if r.err == nil {
		t.Error("the request succeeded")
	}
	<-stopped
	<-stopped
}

func TestAChoiceGoesOnAtAnotherWorkerByItself(t *testing.T) {
	behave := func(ctx context.Context, s *workertest.Stream, sub *decodeworkerv1.Submit) {
		if sub.GetSequence().GetChoice() == 1 && sub.GetSequence().GetAttempt() == 1 {
			s.Batch(sub.GetSequenceId(), &decodeworkerv1.Ended{Reason: generationv1.FinishReason_FINISH_REASON_ERROR, Code: uint32(codes.Unavailable)},
				workertest.Token(sub.GetSequence().GetPrompt(), 0))
			return
		}
		workertest.Answer(ctx, s, sub)
	}
	h := start(t, options{}, workertest.Start(t, "a", behave), workertest.Start(t, "b", behave))
	req := request("hello", 6)
	req.Choices = 3
	for i, text := range texts(t, h.generate(t.Context(), req), 3) {
		if text != expected("hello", 6) {
			t.Errorf("choice %d is %q, want %q", i, text, expected("hello", 6))
		}
	}
}

func TestWhatIsToldBesideTheText(t *testing.T) {
	w := workertest.Start(t, "w", func(_ context.Context, s *workertest.Stream, sub *decodeworkerv1.Submit) {
		s.Batch(sub.GetSequenceId(), &decodeworkerv1.Ended{Reason: generationv1.FinishReason_FINISH_REASON_STOP},
			tokenizertest.FirstByte+'a', tokenizertest.TurnStart, tokenizertest.TurnEnd)
	})
	h := start(t, options{}, w)
	for _, c := range []struct {
		name   string
		change func(*generationv1.Request)
		want   string
	}{
		{"nothing", func(*generationv1.Request) {}, "a"},
		{"echo", func(r *generationv1.Request) { r.Echo = true }, "hia"},
		{"echo of tokens", func(r *generationv1.Request) {
			r.Echo = true
			r.Input = &generationv1.Request_TokenIds{TokenIds: &generationv1.TokenIds{Ids: promptTokens("ho")}}
		}, "hoa"},
		{"control tokens", func(r *generationv1.Request) { r.SpecialTokens = true }, "a<|im_start|>"},
		{"control tokens and what ended it", func(r *generationv1.Request) { r.SpecialTokens, r.Limits.IncludeStop = true, true }, "a<|im_start|><|im_end|>"},
		{"an end that is none", func(r *generationv1.Request) { r.Limits.IgnoreEos, r.SpecialTokens = true, true }, "a<|im_start|><|im_end|>"},
	} {
		req := request("hi", 9)
		c.change(req)
		if r := h.generate(t.Context(), req); r.err != nil || r.text != c.want {
			t.Errorf("%s: %q, %v, want %q", c.name, r.text, r.err, c.want)
		}
	}
	req := request("hi", 9)
	req.ReturnTokenIds = true
	r := h.generate(t.Context(), req)
	if r.err != nil {
		t.Fatal(r.err)
	}
	var ids []uint32
	for i, c := range r.chunks {
		ids = append(ids, c.GetTokenIds()...)
		if want := promptTokens("hi"); (i == 0) != slices.Equal(c.GetPromptTokenIds(), want) {
			t.Errorf("chunk %d has the prompt %v", i, c.GetPromptTokenIds())
		}
	}
	if want := []uint32{tokenizertest.FirstByte + 'a', tokenizertest.TurnStart, tokenizertest.TurnEnd}; !slices.Equal(ids, want) {
		t.Errorf("token ids %v, want %v", ids, want)
	}
}

func TestLogProbsAreThoseOfTheTokensInTheText(t *testing.T) {
	// b begins the stop text and ends the answer, so that only a is left.
	tokens := []uint32{tokenizertest.FirstByte + 'a', tokenizertest.FirstByte + 'b', tokenizertest.FirstByte + 'c'}
	w := workertest.Start(t, "w", func(_ context.Context, s *workertest.Stream, sub *decodeworkerv1.Submit) {
		id := sub.GetSequenceId()
		batch := &decodeworkerv1.StepBatch{}
		for i, token := range tokens {
			batch.SequenceIds, batch.Tokens = append(batch.SequenceIds, id), append(batch.Tokens, token)
			batch.Logprobs = append(batch.Logprobs, &decodeworkerv1.EntryLogProbs{Entry: uint32(i), Logprobs: &generationv1.LogProbs{
				Logprob: -float32(i), TopTokens: []uint32{token, tokenizertest.TurnEnd}, TopLogprobs: []float32{-float32(i), -9},
			}})
		}
		batch.Ended = []*decodeworkerv1.Ended{{SequenceId: id, Reason: generationv1.FinishReason_FINISH_REASON_LENGTH}}
		s.Send(&decodeworkerv1.AttachResponse{Message: &decodeworkerv1.AttachResponse_Batch{Batch: batch}})
	})
	h := start(t, options{}, w)
	for stop, want := range map[string]string{"ZZ": "abc", "bc": "a", "c": "ab"} {
		req := request("hi", 3, stop)
		req.Logprobs = ptr(uint32(2))
		r := h.generate(t.Context(), req)
		if r.err != nil || r.text != want {
			t.Fatalf("stop %q: %q, %v", stop, r.text, r.err)
		}
		text := ""
		for _, c := range r.chunks {
			for _, p := range c.GetLogprobs() {
				if p.GetLogprob() != -float32(len(text)) || len(p.GetTop()) != 2 || string(p.GetTop()[1].GetText()) != "<|im_end|>" {
					t.Errorf("stop %q: %v after %q", stop, p, text)
				}
				text += string(p.GetText())
			}
		}
		if text != want {
			t.Errorf("stop %q: log-probabilities of %q, want %q", stop, text, want)
		}
	}
}

func TestAnswersDoNotDependOnHowTheirTokensCome(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 9))
	w := workertest.Start(t, "w", func(_ context.Context, s *workertest.Stream, sub *decodeworkerv1.Submit) {
		tokens := workertest.Tokens(sub.GetSequence())
		for len(tokens) > 0 {
			n := 1 + rand.IntN(len(tokens))
			var end *decodeworkerv1.Ended
			if n == len(tokens) && rand.IntN(2) == 0 {
				end = &decodeworkerv1.Ended{Reason: generationv1.FinishReason_FINISH_REASON_LENGTH}
			}
			s.Batch(sub.GetSequenceId(), end, tokens[:n]...)
			if tokens = tokens[n:]; len(tokens) == 0 && end == nil {
				s.Batch(sub.GetSequenceId(), &decodeworkerv1.Ended{Reason: generationv1.FinishReason_FINISH_REASON_LENGTH})
			}
		}
	})
	h := start(t, options{}, w)
	for i := range 60 {
		n := 1 + random.IntN(60)
		whole := expected("hello", n)
		from := random.IntN(n)
		stop := whole[from:min(n, from+1+random.IntN(4))]
		if i%3 == 0 {
			stop = "ZZ"
		}
		want, finish := cutAt(whole, stop)
		for range 4 {
			r := h.generate(t.Context(), request("hello", n, stop))
			if r.err != nil || r.text != want || r.last().GetFinishReason() != finish {
				t.Fatalf("%d tokens with the stop %q: %q, %v, %v; want %q, %v", n, stop, r.text, r.last().GetFinishReason(), r.err, want, finish)
			}
		}
	}
}

func cutAt(text, stop string) (string, generationv1.FinishReason) {
	for i := range text {
		if len(text[i:]) >= len(stop) && text[i:i+len(stop)] == stop {
			return text[:i], generationv1.FinishReason_FINISH_REASON_STOP
		}
	}
	return text, generationv1.FinishReason_FINISH_REASON_LENGTH
}

func TestWhatAnAnswerCannotBeIsRefusedByName(t *testing.T) {
	h := start(t, options{}, workertest.Start(t, "w", nil))
	ids := func(n int) []uint32 { return make([]uint32, n) }
	for field, change := range map[string]func(*generationv1.Request){
		"n":                  func(r *generationv1.Request) { r.Choices = 129 },
		"best_of":            func(r *generationv1.Request) { r.BestOf = 2 },
		"logprobs":           func(r *generationv1.Request) { r.Logprobs = ptr(uint32(21)) },
		"min_tokens":         func(r *generationv1.Request) { r.Limits.MinTokens = 6 },
		"stop_token_ids":     func(r *generationv1.Request) { r.Limits.StopTokenIds = ids(65) },
		"logit_bias":         func(r *generationv1.Request) { r.Sampling.LogitBias = []*generationv1.LogitBias{{Token: 1 << 20}} },
		"repetition_penalty": func(r *generationv1.Request) { r.Sampling.RepetitionPenalty = new(float32) },
		"min_p":              func(r *generationv1.Request) { r.Sampling.MinP = ptr(float32(1.5)) },
		"presence_penalty":   func(r *generationv1.Request) { r.Sampling.PresencePenalty = ptr(float32(-2.5)) },
		"frequency_penalty":  func(r *generationv1.Request) { r.Sampling.FrequencyPenalty = ptr(float32(3)) },
		"prompt": func(r *generationv1.Request) {
			r.Input = &generationv1.Request_Prompts{Prompts: &generationv1.Prompts{Prompts: make([]*generationv1.Prompt, 2)}}
		},
	} {
		req := request("hello", 5)
		change(req)
		if r := h.generate(t.Context(), req); rpc.Code(r.err) != codes.InvalidArgument || rpc.Field(r.err) != field {
			t.Errorf("%s: %v (field %q)", field, r.err, rpc.Field(r.err))
		}
	}
}
