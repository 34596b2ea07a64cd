package serve

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func readAll(in io.Reader) (list []string, err error) {
	e := newEvents()
	e.reset(in)
	for {
		data, err := e.next()
		if err != nil {
			return list, err
		}
		list = append(list, string(data))
	}
}

func TestEventsAreReadAsTheStandardSays(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for _, c := range []struct {
		text string
		want []string
	}{
		{"data: a\n\ndata: b\n\n", []string{"a", "b"}},
		{"data:a\r\n\r\ndata:  b\r\n\r\n", []string{"a", " b"}},
		{": keep-alive\n\n\nevent: x\nid: 3\ndata: a\n\nretry: 5\n\n", []string{"a"}},
		{"data: a\ndata: b\ndata:\n: between\ndata: c\n\n", []string{"a\nb\n\nc"}},
		{"data: a\n", []string{"a"}},
		{"data: a\n\ndata: cut", []string{"a"}},
		{"data: a\nda", nil},
		{"data: " + long + "\n\n", []string{long}},
		{"", nil},
	} {
		got, err := readAll(strings.NewReader(c.text))
		if !errors.Is(err, io.EOF) || !slices.Equal(got, c.want) {
			t.Errorf("%.60q: %.60q, %v, want %.60q", c.text, got, err, c.want)
		}
	}
}

func TestReadingAnEventTakesNoMemory(t *testing.T) {
	e := newEvents()
	text := strings.Repeat("data: "+delta("word")+"\n\n", 1000)
	e.reset(strings.NewReader(text))
	keys := textKeys[Chat]
	got := testing.AllocsPerRun(900, func() {
		data, err := e.next()
		if err != nil || !hasText(data, keys) {
			t.Fatal("no event")
		}
	})
	if got > 0 {
		t.Errorf("%v allocations an event", got)
	}
}

func FuzzEvents(f *testing.F) {
	f.Add("data: a\ndata: b\n\n: c\ndata:d\r\n\r\ndata: [DONE]\n")
	f.Add("data\n\ndata: \n\n\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		whole, errWhole := readAll(strings.NewReader(text))
		bytewise, errBytewise := readAll(iotest.OneByteReader(strings.NewReader(text)))
		if !errors.Is(errWhole, io.EOF) || !errors.Is(errBytewise, io.EOF) {
			t.Fatalf("%v and %v", errWhole, errBytewise)
		}
		if diff := cmp.Diff(whole, bytewise); diff != "" {
			t.Fatalf("cut elsewhere, it is read otherwise:\n%s", diff)
		}
	})
}

func TestHasText(t *testing.T) {
	for text, want := range map[string]bool{
		`{"delta":{"content":"a"}}`:                                  true,
		`{"delta": {"role": "assistant", "content": "a"}}`:           true,
		`{"delta":{"content":""}}`:                                   false,
		`{"delta":{"content":null,"reasoning_content":"a"}}`:         true,
		`{"delta":{"content":null,"reasoning":"a"}}`:                 true,
		`{"delta":{},"logprobs":{"content":[{"token":"a"}]}}`:        false,
		`{"logprobs":{"content":[]},"delta":{"content":"a"}}`:        true,
		`{"delta":{"content":"","x":"\"content\":\"a"}}`:             false,
		`{"delta":{"content":"\""}}`:                                 true,
		`{"choices":[],"usage":{"prompt_tokens":1}}`:                 false,
		`{"choices":[{"delta":{"role":"assistant","content": ""}}]}`: false,
	} {
		if got := hasText([]byte(text), textKeys[Chat]); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
