package normalize

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

// naive brings a text into a form as the standard defines it, without regard to speed.
func naive(f *form, text string) string {
	var rs []rune
	for _, r := range text {
		for _, it := range f.decompose(nil, r) {
			rs = append(rs, it.r)
		}
	}
	for swapped := true; swapped; {
		swapped = false
		for i := 1; i < len(rs); i++ {
			if b := f.classOf(rs[i]); b != 0 && f.classOf(rs[i-1]) > b {
				rs[i-1], rs[i] = rs[i], rs[i-1]
				swapped = true
			}
		}
	}
	if f.composes {
		rs = naiveCompose(f, rs)
	}
	return string(rs)
}

// naiveCompose joins each character with the last starter before it, unless one in between blocks
// it: a starter, or one of a class that is not lower.
func naiveCompose(f *form, rs []rune) []rune {
	for i := 1; i < len(rs); i++ {
		j := i - 1
		for j >= 0 && f.classOf(rs[j]) != 0 {
			j--
		}
		if j < 0 {
			continue
		}
		blocked := slices.ContainsFunc(rs[j+1:i], func(r rune) bool { return f.classOf(r) >= f.classOf(rs[i]) })
		if c := f.data.compose(rs[j], rs[i]); c != 0 && !blocked {
			rs[j] = c
			rs = slices.Delete(rs, i, i+1)
			i--
		}
	}
	return rs
}

// checkForms holds all forms against the naive one.
func checkForms(t *testing.T, text string) {
	for _, name := range []string{"NFC", "NFD", "NFKC", "NFKD"} {
		c, err := New([]spec.Step{{Type: name}})
		if err != nil {
			t.Fatal(err)
		}
		got := string(c.Append(nil, text))
		if want := naive(newForm(name), text); got != want {
			t.Fatalf("%s of %+q is %+q, want %+q", name, text, got, want)
		}
		if again := string(c.Append(nil, got)); again != got {
			t.Fatalf("%s of %+q is %+q", name, got, again)
		}
		if c.Same(text) && got != text {
			t.Fatalf("%s of %+q is not the same", name, text)
		}
		checkAligned(t, c, text)
	}
}

// checkAligned holds AppendAligned against Append.
func checkAligned(t *testing.T, c *Chain, text string) {
	want := c.Append([]byte("x"), text)
	got, spans := c.AppendAligned([]byte("x"), nil, text)
	if !bytes.Equal(got, want) || len(spans) != len(got)-1 {
		t.Fatalf("%+q is %+q with %d spans, want %+q", text, got, len(spans), want)
	}
	for _, s := range spans {
		if s.Start >= s.End || int(s.End) > len(text) {
			t.Fatalf("%+q has the span %v", text, s)
		}
	}
}

func TestFormsAreThoseOfTheDefinition(t *testing.T) {
	r := random(7)
	for range 2000 {
		checkForms(t, randomText(&r)+randomText(&r))
	}
}

// TestManyMarksAreSorted is beyond what insertion sorts.
func TestManyMarksAreSorted(t *testing.T) {
	checkForms(t, "a"+strings.Repeat("\u0301\u0327\u0345\u0335", 20)+"b\u0327\u0301")
}

func FuzzForms(f *testing.F) {
	r := random(3)
	for range 20 {
		f.Add(randomText(&r))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) || len(text) > 300 {
			return
		}
		checkForms(t, text)
	})
}

func FuzzChains(f *testing.F) {
	f.Add("a  ``b\r\n c")
	f.Add("\xff\xf0\x9f \x80é")
	var chains []*Chain
	for _, steps := range answeredSteps(f) {
		c, err := New(steps)
		if err != nil {
			f.Fatal(err)
		}
		chains = append(chains, c)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, c := range chains {
			got := c.Append(nil, text)
			if c.Same(text) && string(got) != text {
				t.Fatalf("%+q is %+q", text, got)
			}
			if !utf8.ValidString(text) {
				c.AppendAligned(nil, nil, text)
				continue
			}
			if !utf8.Valid(got) {
				t.Fatalf("%+q is %+q", text, got)
			}
			checkAligned(t, c, text)
		}
	})
}

func FuzzPrecompiled(f *testing.F) {
	data := charsmap(f)
	f.Add(data, "ﬁ e\u0301")
	f.Add([]byte{4, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 'a', 0}, "abc")
	f.Add([]byte{}, "")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		c, err := New([]spec.Step{{Type: "Precompiled", Charsmap: data}})
		if err != nil || !utf8.ValidString(text) {
			return
		}
		if got := c.Append(nil, text); !utf8.Valid(got) {
			t.Fatalf("%+q is %+q", text, got)
		}
		checkAligned(t, c, text)
	})
}

// FuzzRun holds the patterns of Replace against Go's regular expressions.
func FuzzRun(f *testing.F) {
	for _, p := range []string{" {2,}", `\s+`, "[\r\n]", `[\s▁]{2}`, "a", `\.+`, "[]]", "[]a]", "a{0,}", "a{01}", "x{2}+"} {
		f.Add(p, "a  b\r\n\u2028 ▁▁.. x")
	}
	const white = `\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}`
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if pattern == "" || !utf8.ValidString(pattern) || !utf8.ValidString(text) {
			return
		}
		m, err := newRun(pattern)
		if err != nil || m.least > 100 {
			return
		}
		set := "[" + white + "]"
		if pattern[0] == '[' {
			set = white
		}
		re, err := regexp.Compile(strings.ReplaceAll(pattern, `\s`, set))
		if err != nil {
			t.Skip() // Go knows fewer escapes.
		}
		r := &replace{matcher: m, content: "<$>"}
		if got, want := string(r.append(nil, text, nil)), re.ReplaceAllLiteralString(text, "<$>"); got != want {
			t.Fatalf("%q in %q: %q, want %q", pattern, text, got, want)
		}
	})
}
