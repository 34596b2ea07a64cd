package openai

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	frontendv1 "github.com/switchyard-llm/switchyard/proto/switchyard/frontend/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

func piece(text string, finish generationv1.FinishReason) *generationv1.Chunk {
	return &generationv1.Chunk{Id: "id-1", Created: &timestamppb.Timestamp{Seconds: 1700000000}, Model: "a/b", Text: text, FinishReason: finish}
}

func chatChunk(c *generationv1.Chunk) *frontendv1.ChatCompletionsResponse {
	return &frontendv1.ChatCompletionsResponse{Response: &frontendv1.ChatCompletionsResponse_Chunks{Chunks: &frontendv1.Chunks{Chunks: []*generationv1.Chunk{c}}}}
}

func textChunk(c *generationv1.Chunk) *frontendv1.CompletionsResponse {
	return &frontendv1.CompletionsResponse{Response: &frontendv1.CompletionsResponse_Chunks{Chunks: &frontendv1.Chunks{Chunks: []*generationv1.Chunk{c}}}}
}

const (
	running = generationv1.FinishReason_FINISH_REASON_UNSPECIFIED
	stopped = generationv1.FinishReason_FINISH_REASON_STOP
	tooLong = generationv1.FinishReason_FINISH_REASON_LENGTH
)

func TestChatStream(t *testing.T) {
	e := &Encoder{asked: asked{usage: true}}
	var got []byte
	for _, c := range []*generationv1.Chunk{piece("", running), piece("Hi", running), piece("", running), piece(" \"you\"\n", tooLong)} {
		got = e.AppendChat(got, chatChunk(c))
	}
	got = e.AppendChat(got, &frontendv1.ChatCompletionsResponse{Response: &frontendv1.ChatCompletionsResponse_Done{Done: &frontendv1.Done{
		Usage: &generationv1.Usage{PromptTokens: 9, CompletionTokens: 3, CachedTokens: 8}, Last: piece("", tooLong),
	}}})
	const head = `data: {"id":"id-1","object":"chat.completion.chunk","created":1700000000,"model":"a/b","choices":`
	want := strings.Join([]string{
		head + `[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":null}`,
		head + `[{"index":0,"delta":{"content":"Hi"},"logprobs":null,"finish_reason":null}],"usage":null}`,
		head + `[{"index":0,"delta":{"content":" \"you\"\n"},"logprobs":null,"finish_reason":null}],"usage":null}`,
		head + `[{"index":0,"delta":{},"logprobs":null,"finish_reason":"length"}],"usage":null}`,
		head + `[],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":8}}}`,
		`data: [DONE]`, ``,
	}, "\n\n")
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTextStreamWithoutUsage(t *testing.T) {
	e := &Encoder{}
	var got []byte
	for _, c := range []*generationv1.Chunk{piece("", running), piece("Hi", running), piece("!", stopped)} {
		got = e.AppendCompletion(got, textChunk(c))
	}
	got = e.AppendCompletion(got, &frontendv1.CompletionsResponse{Response: &frontendv1.CompletionsResponse_Done{Done: &frontendv1.Done{}}})
	const head = `data: {"id":"id-1","object":"text_completion","created":1700000000,"model":"a/b","choices":`
	want := head + `[{"index":0,"text":"Hi","logprobs":null,"finish_reason":null}]}` + "\n\n" +
		head + `[{"index":0,"text":"!","logprobs":null,"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestWholeAnswers(t *testing.T) {
	c := &generationv1.Completion{
		Id: "id-1", Created: &timestamppb.Timestamp{Seconds: 5}, Model: "m", Usage: &generationv1.Usage{PromptTokens: 2, CompletionTokens: 1},
		Choices: []*generationv1.Choice{{Text: "é", FinishReason: stopped}},
	}
	const usage = `"usage":{"prompt_tokens":2,"completion_tokens":1,"total_tokens":3,"prompt_tokens_details":{"cached_tokens":0}}}`
	chat := (&Encoder{}).AppendChat(nil, &frontendv1.ChatCompletionsResponse{Response: &frontendv1.ChatCompletionsResponse_Completion{Completion: c}})
	want := `{"id":"id-1","object":"chat.completion","created":5,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"é","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],` + usage
	if string(chat) != want {
		t.Errorf("chat:\n got %s\nwant %s", chat, want)
	}
	text := (&Encoder{}).AppendCompletion(nil, &frontendv1.CompletionsResponse{Response: &frontendv1.CompletionsResponse_Completion{Completion: c}})
	want = `{"id":"id-1","object":"text_completion","created":5,"model":"m","choices":[{"index":0,"text":"é","logprobs":null,"finish_reason":"stop"}],` + usage
	if string(text) != want {
		t.Errorf("text:\n got %s\nwant %s", text, want)
	}
}

func TestModels(t *testing.T) {
	got := string(AppendModels(nil, []*frontendv1.Model{{Id: "a/b", CreatedUnix: 7, ContextTokens: 8192}, {Id: "c", OwnedBy: "me"}}))
	want := `{"object":"list","data":[{"id":"a/b","object":"model","created":7,"owned_by":"switchyard","max_model_len":8192},{"id":"c","object":"model","created":0,"owned_by":"me"}]}`
	if got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// Whatever the text, a JSON reader gets it back.
func FuzzQuote(f *testing.F) {
	f.Add("plain")
	f.Add("\x00\x1f\"\\\n\r\t\u2028é😀\xff\xc3")
	f.Fuzz(func(t *testing.T, s string) {
		var back string
		if err := json.Unmarshal(appendQuoted(nil, s), &back); err != nil || back != strings.ToValidUTF8(s, "\ufffd") && back != perByte(s) {
			t.Errorf("%q came back as %q, %v", s, back, err)
		}
	})
}

// perByte replaces each invalid byte by itself, where ToValidUTF8 replaces a run of them.
func perByte(s string) string {
	var b strings.Builder
	for _, r := range s {
		fmt.Fprintf(&b, "%c", r)
	}
	return b.String()
}

func BenchmarkChatChunk(b *testing.B) {
	e, r := &Encoder{}, chatChunk(piece(" token", running))
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = e.AppendChat(buf[:0], r)
	}
}
