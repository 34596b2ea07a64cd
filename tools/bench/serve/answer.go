package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// usage is what a server says it counted.
type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	Details          struct {
		CachedTokens int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// rare is what the rare events have.
type rare struct {
	Usage *usage          `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// fault is why a request has no whole answer: a kind, to count by, and what was said.
type fault struct{ kind, message string }

func (f *fault) Error() string { return f.kind + ": " + f.message }

// openAI reads an error object; kind begins with what is given. Servers put all sorts of things
// into code, and some have nothing but a text.
func openAI(kind string, object json.RawMessage) *fault {
	var e struct {
		Message string
		Type    any
		Code    any
	}
	if json.Unmarshal(object, &e) != nil {
		return &fault{kind, short(string(object))}
	}
	for _, name := range []any{e.Code, e.Type} {
		if text, ok := name.(string); ok && text != "" {
			return &fault{kind + " " + short(text), short(e.Message)}
		}
	}
	return &fault{kind, short(e.Message)}
}

// refused makes a fault of an answer that is not 200.
func refused(response *http.Response) *fault {
	kind := fmt.Sprintf("http %d", response.StatusCode)
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<16)) // what is there explains more than a read error
	var body rare
	if json.Unmarshal(text, &body) == nil && body.Error != nil {
		return openAI(kind, body.Error)
	}
	return &fault{kind, short(string(text))}
}

// short keeps messages to a line.
func short(text string) string {
	const most = 200
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

var (
	done       = []byte("[DONE]")
	usageKey   = []byte(`"usage":`)
	errorKey   = []byte(`"error":`)
	nullPrefix = []byte("null")
)

// reading is the answer of one request as it comes.
type reading struct {
	keys        [][]byte
	begin       time.Time
	sample      Sample
	gaps        []time.Duration // between events with text
	first, last time.Time       // events with text
	texts       int
}

// stream reads events up to the end of the answer, which lets the connection be used again.
func (r *reading) stream(e *events) error {
	ended := false
	for {
		data, err := e.next()
		switch {
		case err != nil && ended: // the answer is whole, whatever becomes of the connection
			return r.finish()
		case err != nil:
			return err
		case ended:
			continue
		}
		now := time.Now()
		if bytes.Equal(data, done) {
			ended = true
			r.sample.EndToEnd = now.Sub(r.begin)
			continue
		}
		if err := r.event(data, now); err != nil {
			return err
		}
	}
}

func (r *reading) event(data []byte, now time.Time) error {
	if len(data) < 2 || data[0] != '{' || data[len(data)-1] != '}' {
		return &fault{"malformed event", short(string(data))}
	}
	r.sample.Chunks++
	if hasText(data, r.keys) {
		if r.texts++; r.texts == 1 {
			r.first = now
		} else {
			r.gaps = append(r.gaps, now.Sub(r.last))
		}
		r.last = now
	}
	if hasValue(data, usageKey) || hasValue(data, errorKey) {
		return r.rare(data)
	}
	return nil
}

// hasValue tells whether there is such a key with a value that is not null.
func hasValue(data, key []byte) bool {
	_, after, ok := bytes.Cut(data, key)
	return ok && !bytes.HasPrefix(bytes.TrimLeft(after, " "), nullPrefix)
}

func (r *reading) rare(data []byte) error {
	var event rare
	if err := json.Unmarshal(data, &event); err != nil {
		return &fault{"malformed event", short(err.Error())}
	}
	if len(event.Error) > 0 && !bytes.Equal(event.Error, nullPrefix) {
		return openAI("error event", event.Error)
	}
	if u := event.Usage; u != nil {
		r.sample.Input, r.sample.Output, r.sample.Cached, r.sample.Counted = u.PromptTokens, u.CompletionTokens, u.Details.CachedTokens, true
	}
	return nil
}

// finish makes times of the whole answer. Without usage, an event with text is taken for a token.
func (r *reading) finish() error {
	if r.texts == 0 {
		return &fault{"no text", "the answer has no event with text"}
	}
	s := &r.sample
	s.TTFT = r.first.Sub(r.begin)
	if !s.Counted {
		s.Output = r.texts
	}
	if s.Output > 1 {
		s.TPOT = r.last.Sub(r.first) / time.Duration(s.Output-1)
	}
	return nil
}

// whole reads an answer that is no stream.
func (r *reading) whole(in io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(in, maxEventBytes))
	if err != nil {
		return err
	}
	r.sample.EndToEnd = time.Since(r.begin)
	if !json.Valid(text) {
		return &fault{"malformed answer", short(string(text))}
	}
	if err := r.rare(text); err != nil {
		return err
	}
	if !hasText(text, r.keys) {
		return &fault{"no text", "the answer has none"}
	}
	return nil
}
