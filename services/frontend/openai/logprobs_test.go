package openai

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	frontendv1 "github.com/switchyard-llm/switchyard/proto/switchyard/frontend/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

func token(text string, logprob float32, top ...*generationv1.TokenLogProb) *generationv1.TokenLogProb {
	return &generationv1.TokenLogProb{Text: []byte(text), Logprob: logprob, Top: top}
}

// asking makes an encoder for a request.
func asking(req *generationv1.Request) *Encoder {
	e := &Encoder{}
	e.Answer(req)
	return e
}

func whole(choices ...*generationv1.Choice) *generationv1.Completion {
	return &generationv1.Completion{
		Id: "id-1", Created: &timestamppb.Timestamp{Seconds: 5}, Model: "m", Choices: choices,
		Usage: &generationv1.Usage{PromptTokens: 2, CompletionTokens: 4},
	}
}

func wholeChat(e *Encoder, c *generationv1.Completion) string {
	return string(e.AppendChat(nil, &frontendv1.ChatCompletionsResponse{Response: &frontendv1.ChatCompletionsResponse_Completion{Completion: c}}))
}

func wholeText(e *Encoder, c *generationv1.Completion) string {
	return string(e.AppendCompletion(nil, &frontendv1.CompletionsResponse{Response: &frontendv1.CompletionsResponse_Completion{Completion: c}}))
}

const wholeUsage = `"usage":{"prompt_tokens":2,"completion_tokens":4,"total_tokens":6,"prompt_tokens_details":{"cached_tokens":0}}`

func same(t *testing.T, name, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %s\nwant %s", name, got, want)
	}
}

func TestLogprobsOfWholeChats(t *testing.T) {
	c := whole(
		&generationv1.Choice{Text: "Hé", FinishReason: stopped, Logprobs: []*generationv1.TokenLogProb{
			token("H", -.5, token("H", -.5), token("\xff\"", float32(math.Inf(-1)))),
			token("\xc3", 0), token("\xa9", -1e-7),
		}},
		&generationv1.Choice{Index: 1, FinishReason: tooLong},
	)
	const head = `{"id":"id-1","object":"chat.completion","created":5,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hé","refusal":null,"annotations":[]},"logprobs":`
	const second = `,{"index":1,"message":{"role":"assistant","content":"","refusal":null,"annotations":[]},"logprobs":`
	want := head + `{"content":[` +
		`{"token":"H","logprob":-0.5,"bytes":[72],"top_logprobs":[{"token":"H","logprob":-0.5,"bytes":[72]},{"token":"\ufffd\"","logprob":-9999.0,"bytes":[255,34]}]},` +
		`{"token":"\ufffd","logprob":0,"bytes":[195],"top_logprobs":[]},{"token":"\ufffd","logprob":-1e-07,"bytes":[169],"top_logprobs":[]}],"refusal":null},"finish_reason":"stop"}` +
		second + `{"content":[],"refusal":null},"finish_reason":"length"}],` + wholeUsage + `}`
	same(t, "asked", wholeChat(asking(&generationv1.Request{Logprobs: ptr(uint32(2))}), c), want)
	want = head + `null,"finish_reason":"stop"}` + second + `null,"finish_reason":"length"}],` + wholeUsage + `}`
	same(t, "not asked", wholeChat(&Encoder{}, c), want)
}

func TestLogprobsOfWholeTexts(t *testing.T) {
	c := whole(&generationv1.Choice{Text: "Hé!", FinishReason: stopped, Logprobs: []*generationv1.TokenLogProb{
		token("H", -.5, token("H", -.5), token("J", -2)),
		token("\xc3", -3, token("\xa9", -1), token("\xff", -2)), // all look alike
		token("\xa9", -1, token("x", float32(math.NaN()))),
		token("!", float32(math.Inf(-1))),
	}}, &generationv1.Choice{Index: 1, FinishReason: tooLong})
	const head = `{"id":"id-1","object":"text_completion","created":5,"model":"m","choices":[{"index":0,"text":"Hé!","logprobs":`
	const tokens = `{"tokens":["H","\ufffd","\ufffd","!"],"token_logprobs":[-0.5,-3,-1,-9999.0],"top_logprobs":`
	const offsets = `,"text_offset":[0,1,1,2]}`
	want := head + tokens + `[{"H":-0.5,"J":-2},{"\ufffd":-1},{"x":-9999.0,"\ufffd":-1},{"!":-9999.0}]` + offsets +
		`,"finish_reason":"stop"},{"index":1,"text":"","logprobs":{"tokens":[],"token_logprobs":[],"top_logprobs":[],"text_offset":[]},"finish_reason":"length"}],` + wholeUsage + `}`
	same(t, "with alternatives", wholeText(asking(&generationv1.Request{Logprobs: ptr(uint32(2))}), c), want)
	want = head + tokens + `null` + offsets + `,"finish_reason":"stop"}],` + wholeUsage + `}`
	c.Choices = c.Choices[:1]
	same(t, "without", wholeText(asking(&generationv1.Request{Logprobs: new(uint32)}), c), want)
	want = head + `null,"finish_reason":"stop"}],` + wholeUsage + `}`
	same(t, "not asked", wholeText(&Encoder{}, c), want)
}

// A part of a token may come before the rest, with which its log-probability comes: it is counted once.
func TestOffsetsOfTokensThatCameInParts(t *testing.T) {
	e := asking(&generationv1.Request{Logprobs: new(uint32)})
	part, rest, next := piece(" ", running), piece("a b", running), piece("c", stopped)
	rest.Logprobs = []*generationv1.TokenLogProb{token(" a", -1), token(" b", -1)}
	next.Logprobs = []*generationv1.TokenLogProb{token("c", -1)}
	var stream []byte
	for _, c := range []*generationv1.Chunk{part, rest, next} {
		stream = e.AppendCompletion(stream, textChunk(c))
	}
	for _, want := range []string{`"text":" ","logprobs":null`, `"text_offset":[0,2]`, `"text_offset":[4]`} {
		if !strings.Contains(string(stream), want) {
			t.Errorf("got %s, want …%s…", stream, want)
		}
	}
}

func of(choice uint32, c *generationv1.Chunk) *generationv1.Chunk {
	c.Choice = choice
	return c
}

// Two choices that come in turns: each has its own role, its own offsets and its own end.
func TestStreamsOfTwoChoices(t *testing.T) {
	req := &generationv1.Request{Logprobs: ptr(uint32(1)), ReturnTokenIds: true, IncludeUsage: true}
	chunks := func() []*generationv1.Chunk {
		a := of(0, piece("H", running))
		a.Logprobs, a.TokenIds, a.PromptTokenIds = []*generationv1.TokenLogProb{token("H", -1, token("H", -1))}, []uint32{7}, []uint32{1, 2}
		b := of(1, piece("", running)) // a part of a character
		b.TokenIds, b.PromptTokenIds = []uint32{8}, []uint32{1, 2}
		c := of(1, piece("é", tooLong))
		c.Logprobs, c.TokenIds = []*generationv1.TokenLogProb{token("\xc3", -2), token("\xa9", -3)}, []uint32{9}
		d := of(0, piece("", stopped))
		d.TokenIds = []uint32{0}
		return []*generationv1.Chunk{a, b, c, d}
	}
	head := func(object string) string {
		return `data: {"id":"id-1","object":"` + object + `","created":1700000000,"model":"a/b","choices":[{"index":`
	}
	const end = `,"usage":null}` + "\n\n"
	e := asking(req)
	var got []byte
	for _, c := range chunks() {
		got = e.AppendChat(got, chatChunk(c))
	}
	chat := head("chat.completion.chunk")
	same(t, "chat", string(got), chat+`0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":[1,2]`+end+
		chat+`0,"delta":{"content":"H"},"logprobs":{"content":[{"token":"H","logprob":-1,"bytes":[72],"top_logprobs":[{"token":"H","logprob":-1,"bytes":[72]}]}],"refusal":null},"finish_reason":null,"token_ids":[7]}]`+end+
		chat+`1,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]`+end+
		chat+`1,"delta":{"content":""},"logprobs":null,"finish_reason":null,"token_ids":[8]}]`+end+
		chat+`1,"delta":{"content":"é"},"logprobs":{"content":[{"token":"\ufffd","logprob":-2,"bytes":[195],"top_logprobs":[]},{"token":"\ufffd","logprob":-3,"bytes":[169],"top_logprobs":[]}],"refusal":null},"finish_reason":null,"token_ids":[9]}]`+end+
		chat+`1,"delta":{},"logprobs":null,"finish_reason":"length"}]`+end+
		chat+`0,"delta":{},"logprobs":null,"finish_reason":"stop","token_ids":[0]}]`+end)

	e, got = asking(req), nil
	for _, c := range chunks() {
		got = e.AppendCompletion(got, textChunk(c))
	}
	text := head("text_completion")
	same(t, "text", string(got), text+`0,"text":"H","logprobs":{"tokens":["H"],"token_logprobs":[-1],"top_logprobs":[{"H":-1}],"text_offset":[0]},"finish_reason":null,"token_ids":[7],"prompt_token_ids":[1,2]}]`+end+
		text+`1,"text":"","logprobs":null,"finish_reason":null,"token_ids":[8],"prompt_token_ids":[1,2]}]`+end+
		text+`1,"text":"é","logprobs":{"tokens":["\ufffd","\ufffd"],"token_logprobs":[-2,-3],"top_logprobs":[{"\ufffd":-2},{"\ufffd":-3}],"text_offset":[0,0]},"finish_reason":"length","token_ids":[9]}]`+end+
		text+`0,"text":"","logprobs":null,"finish_reason":"stop","token_ids":[0]}]`+end)

	// Members that were not asked for do not show, whatever the chunks hold.
	e, got = &Encoder{}, nil
	for _, c := range chunks() {
		got = e.AppendCompletion(e.AppendChat(got, chatChunk(c)), textChunk(c))
	}
	for _, member := range []string{"token_ids", "tokens", "bytes", "usage"} {
		if strings.Contains(string(got), member) {
			t.Errorf("%s shows in %s", member, got)
		}
	}
}

func TestTokenIDsOfWholeAnswers(t *testing.T) {
	c := whole(
		&generationv1.Choice{Text: "a", FinishReason: stopped, TokenIds: []uint32{5, 6}, PromptTokenIds: []uint32{1}},
		&generationv1.Choice{Index: 1, Text: "b", FinishReason: stopped, PromptTokenIds: []uint32{2}},
	)
	e := asking(&generationv1.Request{ReturnTokenIds: true})
	same(t, "chat", wholeChat(e, c), `{"id":"id-1","object":"chat.completion","created":5,"model":"m","choices":[`+
		`{"index":0,"message":{"role":"assistant","content":"a","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop","token_ids":[5,6]},`+
		`{"index":1,"message":{"role":"assistant","content":"b","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop","token_ids":[]}],`+wholeUsage+`,"prompt_token_ids":[1]}`)
	same(t, "text", wholeText(e, c), `{"id":"id-1","object":"text_completion","created":5,"model":"m","choices":[`+
		`{"index":0,"text":"a","logprobs":null,"finish_reason":"stop","token_ids":[5,6],"prompt_token_ids":[1]},`+
		`{"index":1,"text":"b","logprobs":null,"finish_reason":"stop","token_ids":[],"prompt_token_ids":[2]}],`+wholeUsage+`}`)
}

// Tokens that look alike are one member, since a reader of JSON would lose the others.
func TestAlternativesHaveNoDuplicates(t *testing.T) {
	for _, c := range []struct {
		token *generationv1.TokenLogProb
		want  string
	}{
		{token("a", -1), `{"a":-1}`},
		{token("a", -1, token("a", -1), token("b", -2)), `{"a":-1,"b":-2}`},
		{token("c", -9, token("a", -1), token("b", -2)), `{"a":-1,"b":-2,"c":-9}`},
		{token("\xfe", -1, token("\xff", -1.5), token("\ufffd", -2)), `{"\ufffd":-1}`},
		{token("\xfe", -3, token("\xff", -1.5), token("\ufffd", -2)), `{"\ufffd":-1.5}`},
		{token("\xfe\xfe", -3, token("\xff", -1.5)), `{"\ufffd":-1.5,"\ufffd\ufffd":-3}`},
		{token("", -3, token("", -4)), `{"":-3}`},
		{token("a", float32(math.NaN()), token("a", float32(math.NaN()))), `{"a":-9999.0}`},
		{token("a", float32(math.Inf(1))), `{"a":-9999.0}`},
		{token("a", float32(math.Copysign(0, -1))), `{"a":0}`},
		{token("a", -12345), `{"a":-9999.0}`},
	} {
		got := appendAlternatives(nil, c.token)
		// U+FFFD itself is written as it is, not escaped.
		if strings.ReplaceAll(string(got), "\ufffd", `\ufffd`) != c.want || !json.Valid(got) {
			t.Errorf("%v: %s, want %s", c.token, got, c.want)
		}
	}
}

func BenchmarkTextLogprobs(b *testing.B) {
	c := piece(" token", running)
	c.Logprobs = []*generationv1.TokenLogProb{token(" token", -1, token(" token", -1), token(" a", -2), token(" b", -3), token(" c", -4), token(" d", -5))}
	e, r := asking(&generationv1.Request{Logprobs: ptr(uint32(5))}), textChunk(c)
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = e.AppendCompletion(buf[:0], r)
	}
}
