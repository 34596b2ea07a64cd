package output_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/services/processor/output"
)

// words is a Decoder whose token t is words[t]; it gives only whole characters.
type words struct {
	vocabulary []string
	left       string
}

func (w *words) Push(t sequence.Token) string {
	w.left += w.vocabulary[t]
	n := len(w.left)
	for n > 0 && !utf8.ValidString(w.left[:n]) {
		n--
	}
	text := w.left[:n]
	w.left = w.left[n:]
	return text
}

func (w *words) Flush() string {
	if w.left == "" {
		return ""
	}
	w.left = ""
	return "\ufffd"
}

const end = 0 // of vocabulary below

// answer feeds pieces as tokens 1, 2, … (an empty piece is the end token) and returns
// what was delivered for each, then what End adds when nothing ended the answer.
func answer(maxTokens int, stop []string, pieces ...string) (delivered []string, text *output.Text) {
	w := &words{vocabulary: append([]string{"<end>"}, pieces...)}
	text = output.New(output.Config{Decoder: w, Stop: stop, EndTokens: []sequence.Token{end}, MaxTokens: maxTokens})
	for i, p := range pieces {
		token := sequence.Token(i + 1)
		if p == "" {
			token = end
		}
		delivered = append(delivered, text.Push(token))
	}
	return append(delivered, text.End(sequence.FinishLength)), text
}

func TestTextIsDeliveredAsSoonAsItCannotBecomeAStop(t *testing.T) {
	for _, c := range []struct {
		name   string
		stop   []string
		max    int
		pieces []string
		want   []string
		tokens int
		finish sequence.Finish
	}{
		{"no stop", nil, 9, []string{"a", "b"}, []string{"a", "b", ""}, 2, sequence.FinishLength},
		{"end token yields no text", nil, 9, []string{"a", "", "c"}, []string{"a", "", "", ""}, 2, sequence.FinishStop},
		{"limit", nil, 2, []string{"a", "b", "c"}, []string{"a", "b", "", ""}, 2, sequence.FinishLength},
		{"end token at the limit", nil, 2, []string{"a", ""}, []string{"a", "", ""}, 2, sequence.FinishStop},
		{"stop in one token", []string{"b"}, 9, []string{"a", "xbz", "c"}, []string{"a", "x", "", ""}, 2, sequence.FinishStop},
		{"stop over tokens", []string{"\n\nQ"}, 9, []string{"a\n", "\n", "Q:"}, []string{"a", "", "", ""}, 3, sequence.FinishStop},
		{"held text goes on", []string{"\n\nQ"}, 9, []string{"a\n", "\n", "\nX"}, []string{"a", "", "\n\n\nX", ""}, 3, sequence.FinishLength},
		{"held text and overlap", []string{"aab"}, 9, []string{"a", "a", "a", "b"}, []string{"", "", "a", "", ""}, 4, sequence.FinishStop},
		{"held text at the end token", []string{"END"}, 9, []string{"xEN", ""}, []string{"x", "EN", ""}, 2, sequence.FinishStop},
		{"held text at the limit", []string{"END"}, 1, []string{"xEN"}, []string{"xEN", ""}, 1, sequence.FinishLength},
		{"held text at the worker's end", []string{"END"}, 9, []string{"xEN"}, []string{"x", "EN"}, 1, sequence.FinishLength},
		{"first to end counts", []string{"bcd", "c"}, 9, []string{"abcd"}, []string{"ab", ""}, 1, sequence.FinishStop},
		{"longest of those ending together", []string{"c", "bc"}, 9, []string{"abc"}, []string{"a", ""}, 1, sequence.FinishStop},
		{"half a character", nil, 9, []string{"\xc3", "\xa9"}, []string{"", "é", ""}, 2, sequence.FinishLength},
		{"half a character at the end", nil, 9, []string{"a\xc3"}, []string{"a", "\ufffd"}, 1, sequence.FinishLength},
		{"stop shares a character's first byte", []string{"è"}, 9, []string{"é"}, []string{"é", ""}, 1, sequence.FinishLength},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, text := answer(c.max, c.stop, c.pieces...)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("delivered (-want +got):\n%s", diff)
			}
			if text.Finish() != c.finish || len(text.Tokens()) != c.tokens {
				t.Errorf("finish %v after %d tokens, want %v after %d", text.Finish(), len(text.Tokens()), c.finish, c.tokens)
			}
		})
	}
}

// cut is the definition: the text before the stop text that ends first.
func cut(text string, stop []string) (string, bool) {
	for n := 1; n <= len(text); n++ {
		best := -1
		for _, s := range stop {
			if strings.HasSuffix(text[:n], s) && len(s) > best {
				best = len(s)
			}
		}
		if best >= 0 {
			return text[:n-best], true
		}
	}
	return text, false
}

func checkSplit(t *testing.T, text string, stop []string, random *rand.Rand) {
	t.Helper()
	var pieces []string
	for rest := text; rest != ""; {
		n := 1 + random.IntN(len(rest))
		pieces, rest = append(pieces, rest[:n]), rest[n:]
	}
	delivered, state := answer(len(text)+1, stop, pieces...)
	want, stopped := cut(text, stop)
	if got := strings.Join(delivered, ""); got != want {
		t.Fatalf("pieces %q, stop %q: text is %q, want %q", pieces, stop, got, want)
	}
	if (state.Finish() == sequence.FinishStop) != stopped {
		t.Fatalf("pieces %q, stop %q: finish is %v", pieces, stop, state.Finish())
	}
}

func TestAnySplitOfTheTextGivesTheSameAnswer(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	word := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString([]string{"a", "b", "é", "è", "界"}[random.IntN(5)])
		}
		return b.String()
	}
	for range 20_000 {
		stop := make([]string, random.IntN(4))
		for i := range stop {
			stop[i] = word(1 + random.IntN(4))
		}
		checkSplit(t, word(random.IntN(24)), stop, random)
	}
}

func FuzzAnySplitOfTheTextGivesTheSameAnswer(f *testing.F) {
	f.Add("hello\n\nQ: what", "\n\nQ", "wh", uint64(1))
	f.Fuzz(func(t *testing.T, text, stop1, stop2 string, seed uint64) {
		if stop1 == "" || stop2 == "" || !utf8.ValidString(text) || !utf8.ValidString(stop1) || !utf8.ValidString(stop2) {
			t.Skip()
		}
		checkSplit(t, text, []string{stop1, stop2}, rand.New(rand.NewPCG(seed, 0)))
	})
}

func BenchmarkPush(b *testing.B) {
	for _, c := range []struct {
		name string
		stop []string
	}{{"stops0", nil}, {"stops4", []string{"\n\nUser:", "###", "</s>", "Observation:"}}} {
		b.Run(c.name, func(b *testing.B) {
			w := &words{vocabulary: []string{"<end>", " token", "\n", "User"}}
			text := output.New(output.Config{Decoder: w, Stop: c.stop, EndTokens: []sequence.Token{end}, MaxTokens: 1 << 60})
			b.ReportAllocs()
			for i := range b.N {
				text.Push(sequence.Token(1 + i%3))
			}
		})
	}
}
