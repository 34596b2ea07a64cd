// Package prompt turns a request into the tokens that a worker is given, or says which
// field of it can never be served.
//
// A chat goes through the model's template; text of the template may form control tokens,
// text of the chat never does. A text prompt is the caller's own: its control tokens are
// parsed. The package picks no worker and reads no file; it starts no goroutine.
package prompt

import (
	"context"
	"fmt"
	"runtime"

	"github.com/switchyard-llm/switchyard/libs/chattemplate"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/tokenizer"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// Config is what the tokens of a request depend on.
type Config struct {
	// Tokenizer is the model's.
	Tokenizer *tokenizer.Tokenizer
	// Template is the model's chat template. Nil: it has none, and takes no chats.
	Template *chattemplate.Template
	// BOS and EOS are the texts of these tokens, for the template; empty where the model
	// has none.
	BOS, EOS string
	// DefaultMaxTokens bounds an answer where the request does not; at least 1.
	DefaultMaxTokens int
	// Parallel bounds how many prompts are rendered and tokenized at once; 0 is one for
	// each core. Others wait.
	Parallel int
}

// Builder makes sequences out of requests. It may be used from any goroutine.
type Builder struct {
	cfg   Config
	ends  []sequence.Token
	slots chan struct{}
}

// New returns a Builder for one model.
func New(cfg Config) *Builder {
	if cfg.Parallel == 0 {
		cfg.Parallel = runtime.GOMAXPROCS(0)
	}
	return &Builder{cfg: cfg, ends: cfg.Tokenizer.EndTokens(), slots: make(chan struct{}, cfg.Parallel)}
}

// EndTokens are the model's end-of-generation tokens. They are not to be modified.
func (b *Builder) EndTokens() []sequence.Token { return b.ends }

// Build validates a request and tokenizes its prompt, for workers whose sequences have at
// most contextTokens tokens. The sequence lacks only its choice, attempt and deadline. Errors
// are INVALID_ARGUMENT with the OpenAI name of the field, or that of ctx, which ends the
// wait for a core.
func (b *Builder) Build(ctx context.Context, req *generationv1.Request, contextTokens int) (*generationv1.Sequence, error) {
	drawn, err := b.draw(req.GetSampling())
	if err != nil {
		return nil, err
	}
	ends, err := b.ending(req.GetLimits())
	if err != nil {
		return nil, err
	}
	if err := checkAnswer(req); err != nil {
		return nil, err
	}
	var tokens []sequence.Token
	var field string
	err = b.slot(ctx, func() (err error) {
		tokens, field, err = b.tokens(ctx, req)
		return err
	})
	if err != nil {
		return nil, err
	}
	maxTokens, err := b.limit(req.GetLimits(), field, len(tokens), contextTokens)
	if err != nil {
		return nil, err
	}
	if minTokens := req.GetLimits().GetMinTokens(); uint64(minTokens) > uint64(maxTokens) {
		return nil, rpc.InvalidArgument("min_tokens", fmt.Sprintf("is %d, want at most max_tokens, which is %d", minTokens, maxTokens))
	}
	return &generationv1.Sequence{
		RequestId: req.GetRequestId(), Prompt: tokens, MaxTokens: uint32(maxTokens), MinTokens: req.GetLimits().GetMinTokens(), StopTokens: ends,
		CacheSalt: req.GetCacheSalt(), Sampling: drawn, Logprobs: req.Logprobs, Priority: req.GetPriority(),
	}, nil
}

// Echo is the text of a request's own prompt, which is no chat, of at most mostBytes.
func (b *Builder) Echo(ctx context.Context, req *generationv1.Request, mostBytes int) (string, error) {
	if text, ok := req.GetInput().(*generationv1.Request_Text); ok {
		return text.Text, nil
	}
	return b.Decode(ctx, req.GetTokenIds().GetIds(), mostBytes)
}

// tokens gives the prompt and the name of the field that it came from.
func (b *Builder) tokens(ctx context.Context, req *generationv1.Request) (tokens []sequence.Token, field string, err error) {
	switch in := req.GetInput().(type) {
	case *generationv1.Request_Chat:
		tokens, err = b.chat(ctx, in.Chat)
		return tokens, "messages", err
	case *generationv1.Request_Text:
		tokens = b.text(in.Text)
		if len(tokens) == 0 {
			return nil, "", noTokens()
		}
		return tokens, "prompt", nil
	case *generationv1.Request_Prompts:
		return nil, "", rpc.InvalidArgument("prompt", "holds several prompts, want one: frontends take them apart")
	case *generationv1.Request_TokenIds:
		if len(in.TokenIds.GetIds()) == 0 {
			return nil, "", noTokens()
		}
		return in.TokenIds.GetIds(), "prompt", b.check("prompt", in.TokenIds.GetIds())
	default:
		return nil, "", rpc.InvalidArgument("prompt", "neither messages nor a prompt is set, want one of them")
	}
}

// slot calls f when it is its turn.
func (b *Builder) slot(ctx context.Context, f func() error) error {
	select {
	case b.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-b.slots }()
	return f()
}

// text gives the tokens of a text as it is completed: with the one that begins it.
func (b *Builder) text(text string) []sequence.Token {
	return b.begin(b.cfg.Tokenizer.Encode(nil, text, tokenizer.WithSpecial))
}

// begin puts the token before a text that the model wants there, unless it is there.
func (b *Builder) begin(tokens []sequence.Token) []sequence.Token {
	bos, ok := b.cfg.Tokenizer.BOS()
	if ok && b.cfg.Tokenizer.AddBOS() && (len(tokens) == 0 || tokens[0] != bos) {
		return append([]sequence.Token{bos}, tokens...)
	}
	return tokens
}

func noTokens() error { return rpc.InvalidArgument("prompt", "has no tokens, want at least one") }

// check makes sure that the ids of a field are in the vocabulary.
func (b *Builder) check(field string, ids []sequence.Token) error {
	vocabulary := b.cfg.Tokenizer.VocabTokens()
	for i, id := range ids {
		if int(id) >= vocabulary {
			return rpc.InvalidArgument(field, fmt.Sprintf("token %d is %d, want less than the vocabulary's %d", i, id, vocabulary))
		}
	}
	return nil
}
