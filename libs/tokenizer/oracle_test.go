package tokenizer

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/sequence"
)

// recorded is an answer of the reference; testdata/oracle.py made them.
type recorded struct {
	Text    string           // for decoding: without control tokens
	Special string           // for decoding: with them
	Tokens  []sequence.Token `json:"tokens"`
}

func readRecorded(t *testing.T, name string) (out []recorded) {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r recorded
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	if err := lines.Err(); err != nil || len(out) == 0 {
		t.Fatalf("%s: %d lines, %v", name, len(out), err)
	}
	return out
}

func TestEncodesAsTheReference(t *testing.T) {
	tok := load(t)
	for _, name := range []string{"encode.jsonl", "greedy.jsonl"} {
		for range 2 { // the second time, whole words come from the proven index
			for _, r := range readRecorded(t, name) {
				if got := tok.Encode(nil, r.Text, WithSpecial); !slices.Equal(got, r.Tokens) {
					t.Errorf("%s: %q\n got %d\nwant %d", name, r.Text, got, r.Tokens)
				}
			}
		}
	}
}

func TestDecodesAsTheReference(t *testing.T) {
	tok := load(t)
	for _, r := range readRecorded(t, "decode.jsonl") {
		if got := tok.Decode(r.Tokens, NoSpecial); got != r.Text {
			t.Errorf("%d decode to %q, want %q", r.Tokens, got, r.Text)
		}
		if got := tok.Decode(r.Tokens, WithSpecial); got != r.Special {
			t.Errorf("%d decode with special tokens to %q, want %q", r.Tokens, got, r.Special)
		}
	}
}

func TestEveryCharacterHasTheClassOfTheReference(t *testing.T) {
	f, err := os.Open("testdata/classes.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	names := map[string]class{"L": classLetter, "N": classNumber, "S": classSpace, "O": classOther}
	all := newClasses()
	var from, next rune
	var name, nextName string
	check := func(to rune) {
		for r := from; r < to; r++ {
			if all.of(r) != names[name] {
				t.Errorf("U+%04X has class %d, want %s", r, all.of(r), name)
			}
		}
	}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if _, err := fmt.Sscanf(lines.Text(), "%X %s", &next, &nextName); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		check(next)
		from, name = next, nextName
	}
	if from == 0 {
		t.Fatal("classes.txt is empty")
	}
	check(0x110000)
}
