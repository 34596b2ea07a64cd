package prompt_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/switchyard-llm/switchyard/libs/gguf"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/tokenizertest"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

func ptr[T any](v T) *T { return &v }

func TestEncodeGivesWhatBuildWould(t *testing.T) {
	b := builder(t, tokenizertest.ChatTemplate, gguf.Pair{Key: "tokenizer.ggml.add_bos_token", Value: true})
	bos, end := []uint32{tokenizertest.TurnStart}, []uint32{tokenizertest.TurnEnd}
	hi := chat(&generationv1.Message{Role: "user", Content: "hi"})
	bare := chat(&generationv1.Message{Role: "user", Content: "hi"})
	bare.GetChat().AddGenerationPrompt = ptr(false)
	turn := slices.Concat(bos, bytesAs("user\nhi"), end, bytesAs("\n"))
	head := slices.Concat(bos, bytesAs("assistant\n"))
	for _, c := range []struct {
		name  string
		req   *generationv1.Request
		begin *bool
		want  []uint32
	}{
		{"text", text("x"), nil, slices.Concat(bos, bytesAs("x"))},
		{"text that has it", text("<|im_start|>x"), nil, slices.Concat(bos, bytesAs("x"))},
		{"text without", text("x"), ptr(false), bytesAs("x")},
		{"no text", text(""), ptr(false), nil},
		{"chat", hi, nil, slices.Concat(turn, head)},
		{"chat without the head", bare, nil, turn},
		{"chat that begins with it", hi, ptr(true), slices.Concat(turn, head)},
	} {
		got, err := b.Encode(t.Context(), c.req, c.begin)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
		}
		if c.begin == nil && !slices.Equal(got, build(t, b, c.req).GetPrompt()) {
			t.Errorf("%s: Build gives %v", c.name, build(t, b, c.req).GetPrompt())
		}
	}
}

func TestEncodeNamesTheField(t *testing.T) {
	b := builder(t, "")
	for field, req := range map[string]*generationv1.Request{"messages": chat(&generationv1.Message{Role: "user"}), "prompt": request(&generationv1.Request{})} {
		if _, err := b.Encode(t.Context(), req, nil); rpc.Code(err) != codes.InvalidArgument || rpc.Field(err) != field {
			t.Errorf("%v, want one of %s", err, field)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := builder(t, tokenizertest.ChatTemplate).Encode(ctx, chat(&generationv1.Message{Role: "user"}), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the end of the context", err)
	}
}

func TestTextsAreValidAndBounded(t *testing.T) {
	b := builder(t, "")
	got, err := b.Texts([]uint32{tokenizertest.TurnEnd, tokenizertest.FirstByte + 'x', tokenizertest.FirstByte + 0xc3, 99999}, 100)
	if want := []string{"<|im_end|>", "x", "\ufffd", ""}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	if _, err := b.Texts(bytesAs("abc"), 2); rpc.Field(err) != "return_token_strs" {
		t.Errorf("%v, want a refusal", err)
	}
}

func TestDecodeIsBounded(t *testing.T) {
	b := builder(t, "")
	for _, c := range []struct {
		tokens []uint32
		most   int
		want   string
	}{
		{nil, 0, ""},
		{bytesAs("né"), 3, "né"},
		{slices.Concat([]uint32{tokenizertest.TurnStart}, bytesAs("x"), []uint32{tokenizertest.TurnEnd}), 100, "<|im_start|>x<|im_end|>"},
		{bytesAs("\xc3"), 10, "\ufffd"},
	} {
		if got, err := b.Decode(t.Context(), c.tokens, c.most); err != nil || got != c.want {
			t.Errorf("%v: %q, %v, want %q", c.tokens, got, err, c.want)
		}
	}
	for _, c := range []struct {
		tokens  []uint32
		message string
	}{{[]uint32{tokenizertest.VocabTokens}, "vocabulary"}, {bytesAs(strings.Repeat("x", 11)), "more than 10 bytes"}} {
		if _, err := b.Decode(t.Context(), c.tokens, 10); rpc.Field(err) != "tokens" || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%v: %v, want %q", c.tokens, err, c.message)
		}
	}
}
