package tokenizer

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/tokenizertest"
)

// stream decodes token by token and checks what must hold of each piece.
func stream(t *testing.T, tok *Tokenizer, tokens []sequence.Token, special Special) string {
	t.Helper()
	d := tok.NewDetokenizer(special)
	var out strings.Builder
	for _, id := range tokens {
		piece := d.Push(id)
		if !utf8.ValidString(piece) {
			t.Errorf("%d: Push(%d) returned half a character: %q", tokens, id, piece)
		}
		if len(d.pending) > 3 {
			t.Errorf("%d: %d bytes are held back", tokens, len(d.pending))
		}
		out.WriteString(piece)
	}
	out.WriteString(d.Flush())
	return out.String()
}

func TestStreamedTextIsTheReferences(t *testing.T) {
	tok := load(t)
	for _, r := range readRecorded(t, "decode.jsonl") {
		if got := stream(t, tok, r.Tokens, NoSpecial); got != r.Text {
			t.Errorf("%d stream as %q, want %q", r.Tokens, got, r.Text)
		}
		if got := stream(t, tok, r.Tokens, WithSpecial); got != r.Special {
			t.Errorf("%d stream with special tokens as %q, want %q", r.Tokens, got, r.Special)
		}
	}
}

func byteTokens(text string) (out []sequence.Token) {
	for i := range len(text) {
		out = append(out, tokenizertest.FirstByte+sequence.Token(text[i]))
	}
	return out
}

func TestInvalidBytesBecomeReplacementCharacters(t *testing.T) {
	tok := mustSmall(t)
	const bad = "\uFFFD"
	for in, want := range map[string]string{ // cases of the Unicode standard, section 3.9
		"é€😀":                          "é€😀",
		"\x80a":                        bad + "a",
		"\xc0\xaf":                     bad + bad,
		"\xe2\x82":                     bad,
		"\xe2\x82A":                    bad + "A",
		"\xf0\x9f\x98":                 bad,
		"\xf0\x9f\x98\xf0\x9f\x98\x80": bad + "😀",
		"\xed\xa0\x80":                 bad + bad + bad,
		"\xf4\x90\x80\x80":             bad + bad + bad + bad,
		"\xf1\x80\xe1\x80\xc2a":        bad + bad + bad + "a",
		"\xff\xfe":                     bad + bad,
	} {
		if got := stream(t, tok, byteTokens(in), NoSpecial); got != want {
			t.Errorf("%q streams as %q, want %q", in, got, want)
		}
		if got := tok.Decode(byteTokens(in), NoSpecial); got != want {
			t.Errorf("%q decodes to %q, want %q", in, got, want)
		}
	}
}

func TestTextComesAsSoonAsItIsWhole(t *testing.T) {
	tok := mustSmall(t)
	d := tok.NewDetokenizer(NoSpecial)
	var got []string
	for _, id := range byteTokens("a€") {
		got = append(got, d.Push(id))
	}
	if want := "a|||€"; strings.Join(got, "|") != want {
		t.Errorf("pushed %q, want %q", strings.Join(got, "|"), want)
	}
	if rest := d.Flush(); rest != "" {
		t.Errorf("Flush returned %q", rest)
	}
	if text := d.Push(byteTokens("\xff")[0]); text != "\uFFFD" {
		t.Errorf("a byte that begins no character gives %q at once, want U+FFFD", text)
	}
	d.Push(byteTokens("€")[0])
	if rest := d.Flush(); rest != "\uFFFD" {
		t.Errorf("Flush of half a character returned %q", rest)
	}
	if text := d.Push(byteTokens("b")[0]); text != "b" {
		t.Errorf("after a Flush, Push returned %q", text)
	}
}

func TestRandomBytesStreamAsTheyDecode(t *testing.T) {
	tok := load(t)
	r := rand.New(rand.NewPCG(5, 6))
	for range 3000 {
		tokens := make([]sequence.Token, 1+r.IntN(24))
		for i := range tokens {
			tokens[i] = sequence.Token(r.IntN(300)) // control tokens and single bytes
		}
		var joined strings.Builder
		for _, id := range tokens {
			if text, special := tok.Token(id); !special {
				joined.WriteString(text)
			}
		}
		whole, _ := lossy([]byte(joined.String()), true)
		if got := stream(t, tok, tokens, NoSpecial); got != whole {
			t.Errorf("%d stream as %q, want %q", tokens, got, whole)
		}
	}
}

func FuzzDetokenizer(f *testing.F) {
	tok := mustSmall(f)
	f.Add("\xf0\x9f\x98\x80\xe2\x82")
	f.Fuzz(func(t *testing.T, text string) {
		got := stream(t, tok, byteTokens(text), NoSpecial)
		if utf8.ValidString(text) && got != text {
			t.Errorf("%q streams as %q", text, got)
		}
		if !utf8.ValidString(got) {
			t.Errorf("%q streams as invalid UTF-8 %q", text, got)
		}
	})
}
