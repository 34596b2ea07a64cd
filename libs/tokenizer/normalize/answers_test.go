package normalize

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/switchyard-llm/switchyard/libs/tokenizer/spec"
)

func charsmap(t testing.TB) []byte {
	t.Helper()
	f, err := os.Open("testdata/nmt_nfkc.bin.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// answeredSteps are the normalizers of gen/answers.mjs.
func answeredSteps(t testing.TB) map[string][]spec.Step {
	literal := func(pattern, content string) spec.Step {
		return spec.Step{Type: "Replace", Pattern: pattern, Content: content}
	}
	regex := func(pattern, content string) spec.Step {
		return spec.Step{Type: "Replace", Pattern: pattern, Regex: true, Content: content}
	}
	precompiled := spec.Step{Type: "Precompiled", Charsmap: charsmap(t)}
	small, err := os.ReadFile("testdata/small.bin")
	if err != nil {
		t.Fatal(err)
	}
	plain := func(types ...string) (steps []spec.Step) {
		for _, name := range types {
			steps = append(steps, spec.Step{Type: name})
		}
		return steps
	}
	both, left, right := spec.Step{Type: "Strip", Left: 1, Right: 1}, spec.Step{Type: "Strip", Left: 1}, spec.Step{Type: "Strip", Right: 1}
	m := map[string][]spec.Step{
		"Strip": {both}, "StripLeft": {left}, "StripRight": {right},
		"Prepend": {{Type: "Prepend", Content: "▁x"}},
		"Literal": {literal(" ", "▁")}, "Letters": {literal("\r\n", "")},
		"Spaces": {regex(" {2,}", "▁")}, "White": {regex(`\s+`, " ")},
		"White2": {regex(`\s{2}`, "<é>")}, "Set": {regex(`[\r\n\t]`, " ")},
		"Precompiled": {precompiled},
		"Small":       {{Type: "Precompiled", Charsmap: small}},
		"T5":          {precompiled, right, regex(" {2,}", "▁")},
		"Llama":       {{Type: "Prepend", Content: "▁"}, literal(" ", "▁")},
		"Albert":      append([]spec.Step{literal("``", `"`)}, plain("NFKD", "StripAccents", "Lowercase")...),
		"Clip":        {{Type: "NFC"}, regex(`\s+`, " "), {Type: "Lowercase"}},
		"Long":        append(plain("Nmt", "NFKC", "Lowercase", "NFD"), both, spec.Step{Type: "NFC"}),
	}
	for _, name := range []string{"NFC", "NFD", "NFKC", "NFKD", "Nmt", "Lowercase", "StripAccents"} {
		m[name] = plain(name)
	}
	return m
}

const (
	answeredTexts = 20000
	answeredBlock = 2000
)

// eachAnswer calls check for the lines of a file of answers: normalizer, inputs, hashes.
func eachAnswer(t *testing.T, file string, check func(t *testing.T, c *Chain, inputs string, hashes []string)) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	steps := answeredSteps(t)
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		t.Run(fields[0]+"/"+fields[1], func(t *testing.T) {
			t.Parallel()
			if steps[fields[0]] == nil {
				t.Fatal("no such normalizer")
			}
			c, err := New(steps[fields[0]])
			if err != nil {
				t.Fatal(err)
			}
			check(t, c, fields[1], fields[2:])
		})
	}
}

func shortHash(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data))[:8] }

// TestAppendIsThatOfTheReference covers every character in some contexts, and random texts.
func TestAppendIsThatOfTheReference(t *testing.T) {
	eachAnswer(t, "testdata/answers.txt", func(t *testing.T, c *Chain, inputs string, hashes []string) {
		r := random(1)
		for i, want := range hashes {
			if testing.Short() && i > 0 {
				break
			}
			var out []byte
			if inputs == "texts" {
				for range answeredBlock {
					out = append(c.Append(out, randomText(&r)), '\n')
				}
			} else {
				context := inputContexts[inputs[len(inputs)-1]-'0']
				out = append(c.Append(nil, blockText(i*inputBlock, context)), '\n')
			}
			if got := shortHash(out); got != want {
				t.Errorf("block %d: %s, want %s", i, got, want)
			}
		}
	})
}

// TestAlignmentIsThatOfTheReference compares the source of each character of random texts.
func TestAlignmentIsThatOfTheReference(t *testing.T) {
	eachAnswer(t, "testdata/aligned.txt", func(t *testing.T, c *Chain, _ string, hashes []string) {
		r := random(1)
		for i, want := range hashes {
			if testing.Short() && i > 0 {
				break
			}
			var lines bytes.Buffer
			for range answeredBlock {
				lines.WriteString(offsetsOf(t, c, randomText(&r)) + "\n")
			}
			if got := shortHash(lines.Bytes()); got != want {
				t.Errorf("block %d: %s, want %s", i, got, want)
			}
		}
	})
}

// offsetsOf writes the source of each character as the reference does, which counts in characters.
func offsetsOf(t *testing.T, c *Chain, text string) string {
	out, spans := c.AppendAligned(nil, nil, text)
	if plain := c.Append(nil, text); !bytes.Equal(out, plain) || len(spans) != len(out) {
		t.Fatalf("%q: aligned %q with %d spans, else %q", text, out, len(spans), plain)
	}
	var fields []string
	for i := 0; i < len(out); {
		_, n := utf8.DecodeRune(out[i:])
		start, end := spans[i].Start, spans[i+n-1].End
		fields = append(fields, fmt.Sprintf("%d,%d", utf8.RuneCountInString(text[:start]), utf8.RuneCountInString(text[:end])))
		i += n
	}
	return strings.Join(fields, " ")
}
