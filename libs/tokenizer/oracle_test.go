package tokenizer

import (
	"bufio"
	"encoding/json"
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
