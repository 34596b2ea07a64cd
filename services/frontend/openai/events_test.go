package openai

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/types/known/timestamppb"

	frontendv1 "github.com/switchyard-llm/switchyard/proto/switchyard/frontend/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

// tape makes random choices of the bytes of a fuzz input; after them everything is 0.
type tape []byte

func (t *tape) next() byte {
	if len(*t) == 0 {
		return 0
	}
	b := (*t)[0]
	*t = (*t)[1:]
	return b
}

func (t *tape) bytes() []byte {
	n := min(int(t.next()%8), len(*t))
	b := (*t)[:n]
	*t = (*t)[n:]
	return b
}

func (t *tape) ids() []uint32 {
	ids := make([]uint32, t.next()%3)
	for i := range ids {
		ids[i] = uint32(t.next())
	}
	return ids
}

func (t *tape) token(top int) *generationv1.TokenLogProb {
	var bits [4]byte
	copy(bits[:], t.bytes())
	token := &generationv1.TokenLogProb{Text: t.bytes(), Logprob: math.Float32frombits(binary.LittleEndian.Uint32(bits[:]))}
	for range top {
		token.Top = append(token.Top, t.token(0))
	}
	return token
}

// story is a stream of chunks, and what a reader must find in it.
type story struct {
	chunks []*generationv1.Chunk
	texts  map[uint32]string
	ids    map[uint32][]uint32
}

func (t *tape) story() story {
	s := story{texts: map[uint32]string{}, ids: map[uint32][]uint32{}}
	ended := map[uint32]bool{}
	id, model := string(t.bytes()), string(t.bytes())
	for len(*t) > 0 && len(s.chunks) < 64 {
		c := &generationv1.Chunk{
			Id: id, Model: model, Created: &timestamppb.Timestamp{Seconds: 5}, Choice: uint32(t.next() % 4),
			Text: strings.ToValidUTF8(string(t.bytes()), "?"), TokenIds: t.ids(),
		}
		if ended[c.Choice] {
			continue
		}
		for range t.next() % 3 {
			c.Logprobs = append(c.Logprobs, t.token(int(t.next()%3)))
		}
		if _, heard := s.texts[c.Choice]; !heard {
			c.PromptTokenIds = t.ids()
		}
		if t.next()%4 == 0 {
			c.FinishReason, ended[c.Choice] = stopped, true
		}
		s.add(c)
	}
	for choice := range s.texts {
		if !ended[choice] {
			s.add(&generationv1.Chunk{Id: id, Model: model, Created: &timestamppb.Timestamp{Seconds: 5}, Choice: choice, FinishReason: tooLong})
		}
	}
	return s
}

func (s *story) add(c *generationv1.Chunk) {
	s.chunks = append(s.chunks, c)
	s.texts[c.Choice] += c.Text
	s.ids[c.Choice] = append(s.ids[c.Choice], c.TokenIds...)
}

// event is what both dialects write.
type event struct {
	Choices []struct {
		Index uint32
		Text  string
		Delta *struct {
			Role    string
			Content string
		}
		Logprobs json.RawMessage
		Finish   *string  `json:"finish_reason"`
		TokenIDs []uint32 `json:"token_ids"`
	}
	Usage json.RawMessage
	Error json.RawMessage
}

// eventsOf takes a stream apart: each event is one line of JSON and a blank one.
func eventsOf(t *testing.T, stream string) []event {
	t.Helper()
	rest, ok := strings.CutSuffix(stream, "data: [DONE]\n\n")
	if !ok {
		t.Fatalf("the stream ends with %q", stream[max(0, len(stream)-40):])
	}
	var events []event
	for rest != "" {
		block, after, ok := strings.Cut(rest, "\n\n")
		data, isData := strings.CutPrefix(block, "data: ")
		if !ok || !isData || strings.ContainsAny(data, "\r\n") || !utf8.ValidString(data) {
			t.Fatalf("no event: %q", block)
		}
		if v := jsontext.Value(data); !v.IsValid() { // without duplicate names
			t.Fatalf("no JSON: %s", data)
		}
		var e event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		events, rest = append(events, e), after
	}
	return events
}

// check compares what a reader joins with what went in.
func (s *story) check(t *testing.T, events []event, asked *generationv1.Request, isChat bool) {
	t.Helper()
	texts, ids, roles, ends := map[uint32]string{}, map[uint32][]uint32{}, map[uint32]int{}, map[uint32]int{}
	for i, e := range events {
		if asked.GetIncludeUsage() && i == len(events)-1 {
			if len(e.Choices) > 0 || string(e.Usage) == "null" {
				t.Errorf("the last event has no usage: %+v", e)
			}
			continue
		}
		if len(e.Choices) != 1 || asked.GetIncludeUsage() && string(e.Usage) != "null" {
			t.Fatalf("event %+v", e)
		}
		c := e.Choices[0]
		if ends[c.Index] > 0 {
			t.Errorf("choice %d goes on after its end", c.Index)
		}
		if c.Delta != nil {
			c.Text += c.Delta.Content
			if c.Delta.Role != "" {
				roles[c.Index]++
			} else if roles[c.Index] == 0 {
				t.Errorf("choice %d begins without a role", c.Index)
			}
		}
		if asked.Logprobs == nil && string(c.Logprobs) != "null" || !asked.GetReturnTokenIds() && c.TokenIDs != nil {
			t.Errorf("not asked for: %+v", c)
		}
		texts[c.Index] += c.Text
		ids[c.Index] = append(ids[c.Index], c.TokenIDs...)
		if c.Finish != nil {
			if ends[c.Index]++; isChat && c.Text != "" {
				t.Errorf("the end of choice %d has a text", c.Index)
			}
		}
	}
	for choice, text := range s.texts {
		if texts[choice] != text || ends[choice] != 1 || isChat && roles[choice] != 1 {
			t.Errorf("choice %d: %q with %d roles and %d ends, want %q", choice, texts[choice], roles[choice], ends[choice], text)
		}
		if asked.GetReturnTokenIds() && !slices.Equal(ids[choice], s.ids[choice]) {
			t.Errorf("choice %d: tokens %v, want %v", choice, ids[choice], s.ids[choice])
		}
	}
	if len(texts) != len(s.texts) {
		t.Errorf("%d choices, want %d", len(texts), len(s.texts))
	}
}

// Whatever comes, a reader of server-sent events puts together what went in.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("\x07\x02id\x02m\n\x00\x03abc\x01\x05\x01\x02\x04\x00\x00\x80\xff\x02\xff\xfe\x01\x00\x01\x02hi\x00\x00\x00"))
	f.Add([]byte("\x0f\x00\x00\x01\x05\"\\\n\r\t\x02\x01\x02\x00\x02\x01\x01\x00\x00\x01"))
	f.Add([]byte("\x00"))
	f.Fuzz(func(t *testing.T, input []byte) {
		in := tape(input)
		req, want := &generationv1.Request{}, in.next()
		req.IncludeUsage, req.ReturnTokenIds = want&1 != 0, want&2 != 0
		if want&4 != 0 {
			req.Logprobs = ptr(uint32(want >> 3 & 1))
		}
		s := in.story()
		done := &frontendv1.Done{}
		if req.IncludeUsage && len(s.chunks) > 0 {
			done.Usage, done.Last = &generationv1.Usage{}, s.chunks[len(s.chunks)-1]
		} else {
			req.IncludeUsage = false
		}
		toChat, toText := asking(req), asking(req)
		var chat, text []byte
		for _, c := range s.chunks {
			chat = toChat.AppendChat(chat, chatChunk(c))
			text = toText.AppendCompletion(text, textChunk(c))
		}
		chat = toChat.AppendChat(chat, &frontendv1.ChatCompletionsResponse{Response: &frontendv1.ChatCompletionsResponse_Done{Done: done}})
		text = toText.AppendCompletion(text, &frontendv1.CompletionsResponse{Response: &frontendv1.CompletionsResponse_Done{Done: done}})
		s.check(t, eventsOf(t, string(chat)), req, true)
		s.check(t, eventsOf(t, string(text)), req, false)
		s.checkWhole(t, req)
	})
}

// checkWhole writes the story as whole answers, which are valid JSON without duplicates.
func (s *story) checkWhole(t *testing.T, asked *generationv1.Request) {
	t.Helper()
	c := whole()
	for _, chunk := range s.chunks {
		c.Choices = append(c.Choices, &generationv1.Choice{Text: chunk.Text, Logprobs: chunk.Logprobs, TokenIds: chunk.TokenIds, FinishReason: stopped})
	}
	for _, answer := range []string{wholeChat(asking(asked), c), wholeText(asking(asked), c)} {
		if v := jsontext.Value(answer); !v.IsValid() {
			t.Errorf("no JSON: %s", answer)
		}
	}
}
