package output_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/switchyard-llm/switchyard/libs/sequence"
	"github.com/switchyard-llm/switchyard/services/processor/output"
)

// whole is the definition of an answer: what its tokens say when all are there.
type whole struct {
	text   string
	finish sequence.Finish
	tokens int // that were taken
	shown  int // that the text is made of
}

// define looks at all prefixes of the pieces. An empty piece is the end token, whose text is "$".
func define(cfg output.Config, pieces []string) whole {
	raw, ends := "", []int{} // the text so far, and where each token's part ends
	valid := func(s string) int {
		n := len(s)
		for n > 0 && !utf8.ValidString(s[:n]) {
			n--
		}
		return n
	}
	w := whole{finish: sequence.FinishLength}
	from := 0 // matches must end behind it
	for i, p := range pieces {
		w.tokens = i + 1
		end := p == ""
		if !end {
			raw += p
		} else if cfg.IncludeStop {
			raw += "$"
		}
		last := end || i+1 == len(pieces) || i+1 == cfg.MaxTokens
		n := valid(raw)
		text := raw[:n]
		if last && n < len(raw) {
			text += "\ufffd"
		}
		if !end || cfg.IncludeStop {
			ends = append(ends, len(text))
		} else if len(ends) > 0 {
			ends[len(ends)-1] = len(text)
		}
		if i+1 >= cfg.MinTokens {
			if cut, behind, found := first(text, from, cfg.Stop); found {
				w.finish = sequence.FinishStop
				if w.text = text[:cut]; cfg.IncludeStop {
					w.text = text[:behind]
				}
				break
			}
		}
		from = len(text)
		if w.text = text; last {
			if end {
				w.finish = sequence.FinishStop
			}
			break
		}
	}
	for i, end := range ends {
		start := 0
		if i > 0 {
			start = ends[i-1]
		}
		if end <= len(w.text) || start < len(w.text) {
			w.shown++
		}
	}
	return w
}

// first is where the stop text that ends first behind from begins and ends; the longest of those that end there.
func first(text string, from int, stops []string) (cut, end int, found bool) {
	for end = from + 1; end <= len(text); end++ {
		best := -1
		for _, s := range stops {
			if strings.HasSuffix(text[:end], s) && len(s) > best {
				best = len(s)
			}
		}
		if best >= 0 {
			return end - best, end, true
		}
	}
	return 0, 0, false
}

func TestAnswersAreWhatAllTheirTokensSay(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	pick := func(n int, from ...string) string {
		var b strings.Builder
		for range n {
			b.WriteString(from[random.IntN(len(from))])
		}
		return b.String()
	}
	for range 30_000 {
		pieces := make([]string, 1+random.IntN(12))
		for i := range pieces {
			pieces[i] = pick(1+random.IntN(3), "a", "b", "\xc3", "\xa9", "\xe7\x95\x8c")
		}
		if random.IntN(2) == 0 {
			pieces[random.IntN(len(pieces))] = ""
		}
		cfg := output.Config{
			MaxTokens: 1 + random.IntN(14), MinTokens: random.IntN(8) * random.IntN(2), IncludeStop: random.IntN(2) == 0, Settle: true,
			EndTokens: []sequence.Token{end},
		}
		for range random.IntN(3) {
			cfg.Stop = append(cfg.Stop, pick(1+random.IntN(3), "a", "b", "é", "界", "$"))
		}
		check(t, cfg, pieces)
	}
}

func check(t *testing.T, cfg output.Config, pieces []string) {
	t.Helper()
	want := define(cfg, pieces)
	cfg.Decoder = &words{vocabulary: append([]string{"$"}, pieces...)}
	text, delivered, settled := output.New(cfg), "", 0
	for i, p := range pieces {
		token := sequence.Token(i + 1)
		if p == "" {
			token = end
		}
		piece := text.Push(token)
		if !utf8.ValidString(piece) {
			t.Fatalf("%q with %+v: delivered %q", pieces, cfg, piece)
		}
		delivered += piece
		if text.Settled() < settled {
			t.Fatalf("%q with %+v: %d tokens were settled, now %d", pieces, cfg, settled, text.Settled())
		}
		if settled = text.Settled(); text.Finish() != sequence.Unfinished {
			break
		}
	}
	delivered += text.End(sequence.FinishLength)
	got := whole{delivered, text.Finish(), len(text.Tokens()), text.Settled()}
	if got != want {
		t.Fatalf("%q with stops %q, max %d, min %d, include %v:\ngot  %+v\nwant %+v", pieces, cfg.Stop, cfg.MaxTokens, cfg.MinTokens, cfg.IncludeStop, got, want)
	}
}
