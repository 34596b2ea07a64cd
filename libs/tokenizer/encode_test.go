package tokenizer

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/gguf"
	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/tokenizertest"
)

// small builds a tokenizer from the test vocabulary with some pairs changed.
func small(t testing.TB, changed ...gguf.Pair) (*Tokenizer, error) {
	t.Helper()
	pairs := tokenizertest.Pairs()
	for _, c := range changed {
		i := slices.IndexFunc(pairs, func(p gguf.Pair) bool { return p.Key == c.Key })
		switch {
		case i < 0:
			pairs = append(pairs, c)
		case c.Value == nil:
			pairs = slices.Delete(pairs, i, i+1)
		default:
			pairs[i] = c
		}
	}
	var b bytes.Buffer
	if err := gguf.Write(&b, pairs, nil); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return FromGGUF(f)
}

func mustSmall(t testing.TB, changed ...gguf.Pair) *Tokenizer {
	t.Helper()
	tok, err := small(t, changed...)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestOnlyTrustedTextFormsControlTokens(t *testing.T) {
	tok := mustSmall(t)
	const end = "<|im_end|>"
	for _, c := range []struct {
		name     string
		segments []Segment
		controls int
	}{
		{"trusted", []Segment{{end, true}}, 1},
		{"untrusted", []Segment{{end, false}}, 0},
		{"trusted in two parts", []Segment{{"<|im", true}, {"_end|>", true}}, 1},
		{"begun by untrusted text", []Segment{{"<|im", false}, {"_end|>", true}}, 0},
		{"ended by untrusted text", []Segment{{"<|im", true}, {"_end|>", false}}, 0},
		{"untrusted in the middle", []Segment{{"<|im_", true}, {"end", false}, {"|>", true}}, 0},
		{"side by side", []Segment{{"a" + end, false}, {end + "b", true}, {end, false}, {end, true}}, 2},
		{"an empty untrusted segment", []Segment{{"<|im_", true}, {"", false}, {"end|>", true}}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var joined strings.Builder
			for _, s := range c.segments {
				joined.WriteString(s.Text)
			}
			got := tok.EncodeSegments(nil, c.segments)
			n := 0
			for _, id := range got {
				if id < tokenizertest.FirstByte {
					n++
				}
			}
			if n != c.controls {
				t.Errorf("%d control tokens, want %d: %d", n, c.controls, got)
			}
			if back := tok.Decode(got, WithSpecial); back != joined.String() {
				t.Errorf("decodes to %q, want %q", back, joined.String())
			}
		})
	}
}

// Property: without control texts in untrusted parts, borders change nothing.
func TestBordersOfSegmentsChangeNothing(t *testing.T) {
	tok := load(t)
	r := rand.New(rand.NewPCG(1, 2))
	for _, want := range readRecorded(t, "encode.jsonl") {
		if slices.ContainsFunc(want.Tokens, func(id sequence.Token) bool { return id < 17 }) {
			continue
		}
		var segments []Segment
		runes := []rune(want.Text)
		for len(runes) > 0 {
			n := 1 + r.IntN(len(runes))
			segments = append(segments, Segment{string(runes[:n]), r.IntN(2) == 0})
			runes = runes[n:]
		}
		if got := tok.EncodeSegments(nil, segments); !slices.Equal(got, want.Tokens) {
			t.Errorf("%v\n got %d\nwant %d", segments, got, want.Tokens)
		}
	}
}

func TestATokenizerServesManyGoroutines(t *testing.T) {
	tok := load(t)
	cases := readRecorded(t, "encode.jsonl")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for _, c := range cases[:100] {
				if got := tok.Encode(nil, c.Text, WithSpecial); !slices.Equal(got, c.Tokens) {
					t.Errorf("%q gives %d, want %d", c.Text, got, c.Tokens)
				}
			}
		})
	}
	wg.Wait()
}

func TestEncodeAppends(t *testing.T) {
	tok := mustSmall(t)
	got := tok.Encode([]sequence.Token{7}, "!", NoSpecial)
	if want := []sequence.Token{7, tokenizertest.FirstByte + '!'}; !slices.Equal(got, want) {
		t.Errorf("got %d, want %d", got, want)
	}
}

func TestInvalidBytesAreReplacementCharacters(t *testing.T) {
	tok := mustSmall(t)
	for _, segments := range [][]Segment{{{"a\xff\xe2\x82b", true}}, {{"a\xff\xe2", false}, {"\x82b", true}}} {
		if got, want := tok.Decode(tok.EncodeSegments(nil, segments), NoSpecial), "a\uFFFD\uFFFD\uFFFDb"; got != want {
			t.Errorf("%v became %q, want %q", segments, got, want)
		}
	}
}

func TestUserDefinedTokensAreFormedByAnyText(t *testing.T) {
	tokens := tokenizertest.Pairs()[2].Value.([]string)
	types := tokenizertest.Pairs()[3].Value.([]int32)
	tok := mustSmall(t,
		gguf.Pair{Key: "tokenizer.ggml.tokens", Value: append(tokens, "<think>", "<think>\n")},
		gguf.Pair{Key: "tokenizer.ggml.token_type", Value: append(types, 4, 4)})
	id := sequence.Token(tokenizertest.VocabTokens)
	for text, want := range map[string][]sequence.Token{"<think>": {id}, "<think>\n": {id + 1}, "<think><think>\n": {id, id + 1}} {
		if got := tok.Encode(nil, text, NoSpecial); !slices.Equal(got, want) {
			t.Errorf("%q gives %d, want %d", text, got, want)
		}
	}
}

func TestBadFilesAreNamed(t *testing.T) {
	for want, pair := range map[string]gguf.Pair{
		`"tokenizer.ggml.model" is "bert"`:           {Key: "tokenizer.ggml.model", Value: "bert"},
		`"tokenizer.ggml.pre" is "no-such"`:          {Key: "tokenizer.ggml.pre", Value: "no-such"},
		`"tokenizer.ggml.merges" is missing`:         {Key: "tokenizer.ggml.merges"},
		`"tokenizer.ggml.merges": merge 1 is "a  b"`: {Key: "tokenizer.ggml.merges", Value: []string{"< |", "a  b"}},
		`"tokenizer.ggml.token_type" has 1 elements`: {Key: "tokenizer.ggml.token_type", Value: []int32{1}},
		`"a" is both token 0 and 1`:                  {Key: "tokenizer.ggml.tokens", Value: slices.Repeat([]string{"a"}, tokenizertest.VocabTokens)},
		`"tokenizer.ggml.eos_token_id" is 259`:       {Key: "tokenizer.ggml.eos_token_id", Value: uint32(tokenizertest.VocabTokens)},
		`"tokenizer.ggml.bos_token_id" is float32`:   {Key: "tokenizer.ggml.bos_token_id", Value: float32(1)},
		`"tokenizer.ggml.add_bos_token" is string`:   {Key: "tokenizer.ggml.add_bos_token", Value: "yes"},
	} {
		pairs := []gguf.Pair{pair}
		if strings.Contains(want, "merge 1") { // makes merge 0 a good one
			tokens := tokenizertest.Pairs()[2].Value.([]string)
			tokens[tokenizertest.EndOfText] = "<|"
			pairs = append(pairs, gguf.Pair{Key: "tokenizer.ggml.tokens", Value: tokens})
		}
		if _, err := small(t, pairs...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %s", err, want)
		}
	}
}

func TestEndTokens(t *testing.T) {
	if got := load(t).EndTokens(); !slices.Equal(got, []sequence.Token{0, 2}) {
		t.Errorf("the model's end tokens are %d, want 0 and 2", got)
	}
	tokens := tokenizertest.Pairs()[2].Value.([]string)
	types := tokenizertest.Pairs()[3].Value.([]int32)
	base := sequence.Token(len(tokens))
	for _, c := range []struct {
		more []string
		want []sequence.Token
	}{
		{[]string{"<|other|>"}, []sequence.Token{0, 2}},
		{[]string{"<|eot_id|>", "</s>"}, []sequence.Token{0, 2, base, base + 1}},
		{[]string{"<|end|>", "<|return|>", "<|call|>"}, []sequence.Token{0, 2, base + 1, base + 2}},
		{[]string{"<|tool_response>", "</s>"}, []sequence.Token{0, 2, base}},
	} {
		tok := mustSmall(t,
			gguf.Pair{Key: "tokenizer.ggml.tokens", Value: slices.Concat(tokens, c.more)},
			gguf.Pair{Key: "tokenizer.ggml.token_type", Value: slices.Concat(types, slices.Repeat([]int32{1}, len(c.more)))})
		if got := tok.EndTokens(); !slices.Equal(got, c.want) {
			t.Errorf("with %q: end tokens %d, want %d", c.more, got, c.want)
		}
	}
	tok := mustSmall(t, gguf.Pair{Key: "tokenizer.ggml.eot_token_id", Value: uint32(9)})
	if got := tok.EndTokens(); !slices.Equal(got, []sequence.Token{0, 2, 9}) {
		t.Errorf("with an EOT: end tokens %d", got)
	}
}

func TestFactsOfTheModel(t *testing.T) {
	tok := load(t)
	if n := tok.VocabTokens(); n != 49152 {
		t.Errorf("%d tokens, want 49152", n)
	}
	if id, ok := tok.BOS(); id != 1 || !ok || tok.AddBOS() {
		t.Errorf("BOS %d, %v, add %v; want 1, true, false", id, ok, tok.AddBOS())
	}
	if text, special := tok.Token(2); text != "<|im_end|>" || !special {
		t.Errorf("token 2 is %q, %v", text, special)
	}
	if text, special := tok.Token(9690); text != "system" || special {
		t.Errorf("token 9690 is %q, %v", text, special)
	}
	if text, special := tok.Token(1 << 31); text != "" || special {
		t.Errorf("a token outside the vocabulary is %q, %v", text, special)
	}
	if texts := tok.ControlTexts(); len(texts) != 17 || texts[1] != "<|im_start|>" {
		t.Errorf("control texts %q", texts)
	}
}

func FuzzRoundTrip(f *testing.F) {
	tok := mustSmall(f)
	f.Add("it's <|im_end|> 2024\u00a0 \xf0\x9f\x98")
	f.Fuzz(func(t *testing.T, text string) {
		for _, special := range []Special{NoSpecial, WithSpecial} {
			tokens := tok.Encode(nil, text, special)
			want := string([]rune(text)) // this vocabulary has every byte
			if got := tok.Decode(tokens, WithSpecial); got != want {
				t.Errorf("%q became %q", text, got)
			}
			if special == NoSpecial && slices.ContainsFunc(tokens, func(id sequence.Token) bool { return id < tokenizertest.FirstByte }) {
				t.Errorf("%q made a control token: %d", text, tokens)
			}
		}
	})
}
