package split

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/image"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

const (
	llama3 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	o200k  = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
		`\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	possessive = `(?i:'s|'t)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s`
)

func regex(pattern, behavior string) spec.Step {
	return spec.Step{Path: "pre_tokenizer", Type: "Split", Pattern: pattern, Regex: true, Behavior: behavior}
}

func mustNew(t testing.TB, steps ...spec.Step) *Splitter {
	t.Helper()
	s, err := New(steps)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// pieces lists what is kept, and what is dropped in angle brackets.
func pieces(s *Splitter, text string) (out []string) {
	var c Cursor
	for at := 0; at < len(text); {
		end, keep := s.Next(text, at, &c)
		piece := text[at:end]
		if !keep {
			piece = "<" + piece + ">"
		}
		out = append(out, piece)
		at = end
	}
	return out
}

func TestPiecesOfRealPatterns(t *testing.T) {
	const text = "Hello, World's  best\n\n  I'LL pay 12345 dollars\t for XMLHttpRequest's ſ'ſ 你好 "
	for pattern, want := range map[string]string{
		llama3: `Hello|,| World|'s| | best|` + "\n\n" + `| | I|'LL| pay| |123|45| dollars|` + "\t" + `| for| XMLHttpRequest|'s| ſ|'ſ| 你好| `,
		o200k:  `Hello|,| World's| | best|` + "\n\n" + `| | I'LL| pay| |123|45| dollars|` + "\t" + `| for| XMLHttp|Request's| ſ'ſ| 你好| `,
		gpt2:   `Hello|,| World|'s| | best|` + "\n\n " + `| I|'|LL| pay| 12345| dollars|` + "\t" + `| for| XMLHttpRequest|'s| ſ|'|ſ| 你好| `,
	} {
		if got := strings.Join(pieces(mustNew(t, regex(pattern, "Isolated")), text), "|"); got != want {
			t.Errorf("%s\n got %q\nwant %q", pattern, got, want)
		}
	}
}

func TestBehaviors(t *testing.T) {
	for behavior, want := range map[string]string{
		"Isolated":           "the|-|final|-|-|countdown|-",
		"Removed":            "the|<->|final|<->|<->|countdown|<->",
		"MergedWithPrevious": "the-|final-|-|countdown-",
		"MergedWithNext":     "the|-final|-|-countdown|-",
		"Contiguous":         "the|-|final|--|countdown|-",
	} {
		step := spec.Step{Type: "Split", Pattern: "-", Behavior: behavior}
		if got := strings.Join(pieces(mustNew(t, step), "the-final--countdown-"), "|"); got != want {
			t.Errorf("%s: got %s, want %s", behavior, got, want)
		}
	}
	inverted := spec.Step{Type: "Split", Pattern: `[a-z]+`, Regex: true, Behavior: "Removed", Invert: true}
	if got := strings.Join(pieces(mustNew(t, inverted), "12ab3cd"), "|"); got != "<12>|ab|<3>|cd" {
		t.Errorf("inverted: got %s", got)
	}
}

func TestALevelSplitsThePiecesOfTheOneBefore(t *testing.T) {
	s := mustNew(t, regex(`\p{N}{1,3}`, "Isolated"), regex(`[一-龥]+`, "Isolated"), regex(gpt2, "Isolated"))
	if got := strings.Join(pieces(s, "abc 1234你好 x  "), "|"); got != "abc| |123|4|你好| x|  " {
		t.Errorf("got %s", got)
	}
}

func TestWhatIsNotSupportedIsNamed(t *testing.T) {
	for pattern, want := range map[string]string{
		`a(?<=b)`: `group "(?<=" is not supported`, `(a`: `")" is missing`, `a)`: `")" closes nothing`, `[a`: `"]" is missing`,
		`\p{Klingon}`: `property "Klingon" is unknown`, `a{3,1}`: "bounds {3,1}", `a**`: "repeats a repetition", `\b`: `escape \b is not supported`,
		`[z-a]`: "two characters in order", `(?!ab)a`: "other than one character", `a*`: "matches nothing at all", `^a`: `"^" is not supported`,
		`(?:a|b)++a`: "possessive", `[[:alpha:]]`: `"[:" within a class`, `\x{110000}`: "hexadecimal number of a character", `a{2000}`: "bounds {2000}",
		strings.Repeat("(", 100): "nest deeper", strings.Repeat("a", 20_000): "at most 16384", `a\`: "backslash ends",
		`(?:(?:a{500}){500})`: "too large", `(?:a?)*b`: "what may match nothing", "\xff": "not valid UTF-8",
	} {
		if _, err := New([]spec.Step{regex(pattern, "Isolated")}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: error %v, want one with %q", pattern, err, want)
		}
	}
	for _, step := range []spec.Step{{Type: "UnicodeScripts"}, regex("a", "Sideways")} {
		if _, err := New([]spec.Step{step}); err == nil || !strings.Contains(err.Error(), "want") {
			t.Errorf("%s: error %v", step.Type, err)
		}
	}
}

// backtrack tries the ways of matching in order of preference, as the reference's engine does.
func backtrack(n *node, text string, at int, then func(int) bool) bool {
	switch n.op {
	case opSet:
		r, size := utf8.DecodeRuneInString(text[at:])
		return size > 0 && n.set.has(r) && then(at+size)
	case opAhead:
		r, size := utf8.DecodeRuneInString(text[at:])
		return (size > 0 && n.set.has(r)) != n.not && then(at)
	case opAlternate:
		return slices.ContainsFunc(n.subs, func(sub *node) bool { return backtrack(sub, text, at, then) })
	case opConcat:
		if len(n.subs) == 0 {
			return then(at)
		}
		rest := &node{op: opConcat, subs: n.subs[1:]}
		return backtrack(n.subs[0], text, at, func(end int) bool { return backtrack(rest, text, end, then) })
	}
	return repeated(n, text, at, 0, then)
}

func repeated(n *node, text string, at, count int, then func(int) bool) bool {
	if n.own { // the first way is the only one
		end := -1
		greedy := *n
		greedy.own = false
		repeated(&greedy, text, at, 0, func(to int) bool { end = to; return true })
		return end >= 0 && then(end)
	}
	more := func() bool {
		return (n.max < 0 || count < n.max) && backtrack(n.subs[0], text, at, func(end int) bool {
			return repeated(n, text, end, count+1, then)
		})
	}
	enough := func() bool { return count >= n.min && then(at) }
	if n.lazy {
		return enough() || more()
	}
	return more() || enough()
}

func checkPattern(t *testing.T, pattern, text string) {
	root, err := parse(pattern)
	if err != nil {
		return
	}
	a, err := build(root)
	if err != nil {
		return
	}
	for at := range text {
		want := -1
		backtrack(root, text, at, func(end int) bool { want = end; return true })
		if got := a.match(text, at); got != want {
			t.Fatalf("%s: the match at byte %d of %q ends at %d, want %d", pattern, at, text, got, want)
		}
		if got := a.quick(text, at); got != want {
			t.Fatalf("%s: quickly, the match at byte %d of %q ends at %d, want %d", pattern, at, text, got, want)
		}
	}
}

func randomPattern(r *rand.Rand, depth int) string {
	atoms := []string{"a", "b", "[ab]", "[^a]", `\s`, `\S`, " ", `\p{L}`, `\p{N}`, "é", "(?i:s)", `[\r\n]`, "'", "(?!a)", `(?=\s)`, `(?!\S)`, "[a-z]", "[a-zA-Z]"}
	switch n := r.IntN(10); {
	case depth == 0 || n < 3:
		return atoms[r.IntN(len(atoms))]
	case n < 6:
		return randomPattern(r, depth-1) + randomPattern(r, depth-1)
	case n < 8:
		return "(?:" + randomPattern(r, depth-1) + "|" + randomPattern(r, depth-1) + ")"
	}
	return "(?:" + randomPattern(r, depth-1) + ")" + []string{"*", "+", "?", "{1,3}", "*?", "+?", "{2}", "++", "{2}+"}[r.IntN(9)]
}

func randomText(r *rand.Rand) string {
	from := []rune("aabb  \r\n1é'sSſzZ你")
	var b strings.Builder
	for range r.IntN(14) {
		b.WriteRune(from[r.IntN(len(from))])
	}
	return b.String()
}

// longWord is what eight bytes at a time are looked at for.
func longWord(r *rand.Rand) string { return strings.Repeat("abz", r.IntN(12)) }

func TestMatchesAsByBacktracking(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	rounds := 800
	if testing.Short() {
		rounds = 300
	}
	for range rounds {
		checkPattern(t, randomPattern(r, 3), randomText(r))
	}
	for range rounds / 4 {
		for _, pattern := range []string{llama3, o200k, gpt2, possessive} {
			checkPattern(t, pattern, randomText(r)+longWord(r)+randomText(r))
		}
	}
}

func TestACutAtABorderMovesNoPiece(t *testing.T) {
	digits, cjk := regex(`\p{N}{1,3}`, "Isolated"), regex(`[一-龥]+`, "Isolated")
	r := rand.New(rand.NewPCG(7, 8))
	for name, s := range map[string]*Splitter{
		"llama3": mustNew(t, regex(llama3, "Isolated")), "o200k": mustNew(t, regex(o200k, "Isolated")),
		"levels": mustNew(t, digits, cjk, regex(gpt2, "Isolated")), "possessive": mustNew(t, regex(possessive, "Isolated")),
	} {
		cuts := 0
		for range 3000 {
			text := randomText(r) + randomText(r)
			at := s.Border(text, r.IntN(len(text)+1))
			if at < 0 {
				continue
			}
			cuts++
			whole, halves := pieces(s, text), append(pieces(s, text[:at]), pieces(s, text[at:])...)
			if !slices.Equal(whole, halves) {
				t.Fatalf("%s: %q cut at byte %d gives %q, want %q", name, text, at, halves, whole)
			}
		}
		if cuts < 1000 {
			t.Errorf("%s: only %d texts had a border", name, cuts)
		}
	}
}

func TestFillGivesThePiecesOfNext(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for _, s := range []*Splitter{
		mustNew(t, regex(llama3, "Isolated")), mustNew(t, regex(`\p{N}`, "Isolated"), regex(gpt2, "Isolated")), mustNew(t, regex(`[ab]+`, "Removed")), mustNew(t),
	} {
		w := image.NewWriter(1)
		s.PutImage(w)
		reader, err := image.Read(w.Bytes(), 1)
		if err != nil {
			t.Fatal(err)
		}
		again := GetImage(reader)
		for range 500 {
			text := randomText(r) + longWord(r) + randomText(r) + longWord(r) + randomText(r)
			var want, got []uint32
			var c Cursor
			for at := 0; at < len(text); {
				end, keep := s.Next(text, at, &c)
				at = end
				if want = append(want, uint32(end)); !keep {
					want[len(want)-1] |= Dropped
				}
			}
			c = Cursor{}
			var out [3]uint32
			for at := 0; at < len(text); at = int(got[len(got)-1] &^ Dropped) {
				got = append(got, out[:again.Fill(text, at, len(text), &c, out[:])]...)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%q: pieces end at %x, want %x", text, got, want)
			}
		}
	}
}

func FuzzPattern(f *testing.F) {
	for _, pattern := range []string{llama3, o200k, possessive, `(?:a|ab)(?:c|bcd)`, `[^\]a-c-]{2,}?x`, `\x{41}\pL$`} {
		f.Add(pattern, "It's 12 ab\n 你好")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 60 || len(text) > 12 || !utf8.ValidString(text) || strings.Count(pattern, "*")+strings.Count(pattern, "+")+strings.Count(pattern, "{") > 3 {
			_, _ = New([]spec.Step{regex(pattern, "Isolated")}) // backtracking would take too long
			return
		}
		checkPattern(t, pattern, text)
	})
}

func BenchmarkFill(b *testing.B) {
	const sentence = "It is a truth universally acknowledged, that a single man in possession of a good fortune, must be in want of a wife.\n"
	text := strings.Repeat(sentence, 400)
	for name, pattern := range map[string]string{"llama3": llama3, "o200k": o200k} {
		b.Run(name, func(b *testing.B) {
			s := mustNew(b, regex(pattern, "Isolated"))
			b.SetBytes(int64(len(text)))
			var out [256]uint32
			for b.Loop() {
				var c Cursor
				for at := 0; at < len(text); {
					n := s.Fill(text, at, len(text), &c, out[:])
					at = int(out[n-1])
				}
			}
		})
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		if _, err := New([]spec.Step{regex(o200k, "Isolated")}); err != nil {
			b.Fatal(fmt.Errorf("o200k: %w", err))
		}
	}
}
