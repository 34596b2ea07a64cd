package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard-llm/switchyard/libs/engine/cpu/cputest"
	"github.com/switchyard-llm/switchyard/libs/gguf"
	"github.com/switchyard-llm/switchyard/libs/sequence"
	frontendv1 "github.com/switchyard-llm/switchyard/proto/switchyard/frontend/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// request is what a client asks.
type request struct {
	prompt      []sequence.Token
	text        string // instead of prompt
	maxTokens   uint32
	temperature float32
	seed        uint64
	salt        string
}

// answer is what it got.
type answer struct {
	text   string
	finish generationv1.FinishReason
	usage  *generationv1.Usage
	served *generationv1.Served
}

func (r request) typed() *generationv1.Request {
	typed := &generationv1.Request{
		Model: modelName, Input: &generationv1.Request_TokenIds{TokenIds: &generationv1.TokenIds{Ids: r.prompt}},
		Sampling:  &generationv1.Sampling{Temperature: proto.Float32(r.temperature), Seed: proto.Uint64(r.seed)},
		Limits:    &generationv1.Limits{MaxTokens: proto.Uint32(r.maxTokens)},
		CacheSalt: r.salt, Stream: true,
	}
	if r.text != "" {
		typed.Input = &generationv1.Request_Text{Text: r.text}
	}
	return typed
}

// ask sends a request and collects its stream. Chunks beyond the first are counted by onChunk.
func (c *cluster) ask(ctx context.Context, r request, onChunk func()) (answer, error) {
	return c.askTyped(ctx, r.typed(), onChunk)
}

// askFor asks another model.
func (c *cluster) askFor(model string, r request) (answer, error) {
	typed := r.typed()
	typed.Model = model
	return c.askTyped(c.t.Context(), typed, nil)
}

func (c *cluster) askTyped(ctx context.Context, typed *generationv1.Request, onChunk func()) (answer, error) {
	stream, err := c.frontend.Completions(ctx, &frontendv1.CompletionsRequest{
		Request: &frontendv1.CompletionsRequest_Typed{Typed: typed},
	})
	if err != nil {
		return answer{}, err
	}
	var a answer
	var text strings.Builder
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			a.text = text.String()
			if a.finish == generationv1.FinishReason_FINISH_REASON_UNSPECIFIED {
				return a, errors.New("the stream ended without a finish reason")
			}
			return a, nil
		}
		if err != nil {
			return a, err
		}
		for _, chunk := range m.GetChunks().GetChunks() {
			text.WriteString(chunk.GetText())
			if onChunk != nil {
				onChunk()
			}
			if chunk.GetFinishReason() != generationv1.FinishReason_FINISH_REASON_UNSPECIFIED {
				a.finish, a.usage, a.served = chunk.GetFinishReason(), chunk.GetUsage(), chunk.GetServed()
			}
		}
	}
}

// same says whether two answers are equal token for token.
func same(a, b answer) error {
	if a.text != b.text || a.finish != b.finish || a.usage.GetCompletionTokens() != b.usage.GetCompletionTokens() {
		return fmt.Errorf("%q %v %d tokens, want %q %v %d tokens", a.text, a.finish, a.usage.GetCompletionTokens(),
			b.text, b.finish, b.usage.GetCompletionTokens())
	}
	return nil
}

// renewEvery is after how many requests one of the shared prefixes is replaced.
const renewEvery = 8

// source draws requests that share prefixes.
type source struct {
	rnd    *rand.Rand
	vocab  int
	shared [][]sequence.Token
	drawn  int
}

func newSource(seed uint64, vocab int) *source {
	s := &source{rnd: rand.New(rand.NewPCG(seed, seed)), vocab: vocab}
	for range 6 {
		s.shared = append(s.shared, s.prefix())
	}
	return s
}

func (s *source) prefix() []sequence.Token { return s.tokens(64 + s.rnd.IntN(128)) }

func (s *source) tokens(n int) []sequence.Token {
	t := make([]sequence.Token, n)
	for i := range t {
		t[i] = sequence.Token(3 + s.rnd.IntN(s.vocab-3))
	}
	return t
}

// next draws a request: half of them begin with a shared prefix, half are greedy.
func (s *source) next() request {
	r := request{maxTokens: uint32(1 + s.rnd.IntN(24)), seed: s.rnd.Uint64()}
	if s.rnd.IntN(2) == 0 {
		r.temperature = 0.8
	}
	// A prefix that every worker has cached by now shows nothing any more.
	if s.drawn++; s.drawn%renewEvery == 0 {
		s.shared[s.drawn/renewEvery%len(s.shared)] = s.prefix()
	}
	if s.rnd.IntN(3) > 0 {
		prefix := s.shared[s.rnd.IntN(len(s.shared))]
		r.prompt = append(r.prompt, prefix[:1+s.rnd.IntN(len(prefix))]...)
	}
	r.prompt = append(r.prompt, s.tokens(1+s.rnd.IntN(120))...)
	return r
}

// writeModel makes a model with random weights. The text of each of its ordinary tokens is
// two letters, so that the text of an answer says its tokens.
func writeModel(t *testing.T, dir string, shape cputest.Shape) string {
	t.Helper()
	path := filepath.Join(dir, "random.gguf")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := cputest.Write(file, shape, 1, vocabulary(shape)...); err != nil {
		t.Fatal(err)
	}
	return path
}

func vocabulary(shape cputest.Shape) []gguf.Pair {
	tokens, types := []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}, []int32{3, 3, 3}
	for i := 3; i < shape.VocabTokens; i++ {
		tokens = append(tokens, string([]byte{'A' + byte(i/26), 'a' + byte(i%26)}))
		types = append(types, 1)
	}
	return []gguf.Pair{
		{Key: "tokenizer.ggml.model", Value: "gpt2"},
		{Key: "tokenizer.ggml.pre", Value: "smollm"},
		{Key: "tokenizer.ggml.tokens", Value: tokens},
		{Key: "tokenizer.ggml.token_type", Value: types},
		{Key: "tokenizer.ggml.merges", Value: []string{}},
		{Key: "tokenizer.ggml.bos_token_id", Value: uint32(1)},
		{Key: "tokenizer.ggml.eos_token_id", Value: uint32(2)},
		{Key: "tokenizer.ggml.add_bos_token", Value: false},
	}
}
