package chattemplate

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/gguf"
	"github.com/switchyard-llm/switchyard/libs/modelstore/modeltest"
	"github.com/switchyard-llm/switchyard/libs/tokenizer"
)

func control() []string {
	return []string{"<|im_start|>", "<|im_end|>", "<s>", "</s>", "[INST]", "[/INST]"}
}

func parse(t testing.TB, source string) *Template {
	t.Helper()
	tmpl, err := Parse(source, Options{ControlTexts: control(), Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }})
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

func render(t testing.TB, source string, in Input) string {
	t.Helper()
	segments, err := parse(t, source).Render(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return Join(segments)
}

// model reads the template and the tokenizer of the default model.
func model(t testing.TB) (*Template, *tokenizer.Tokenizer) {
	t.Helper()
	f, err := gguf.Open(modeltest.TestModel(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	source, err := f.String("tokenizer.chat_template")
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.FromGGUF(f)
	if err != nil {
		t.Fatal(err)
	}
	tmpl, err := Parse(source, Options{ControlTexts: tok.ControlTexts()})
	if err != nil {
		t.Fatal(err)
	}
	return tmpl, tok
}

const defaultSystem = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"

func TestTheModelsTemplate(t *testing.T) {
	tmpl, _ := model(t)
	if tmpl.TakesParts() {
		t.Error("the template is said to take parts, and does not")
	}
	user := Message{Role: "user", Content: "What is the capital of France?"}
	const asked = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n"
	for _, c := range []struct {
		name string
		in   Input
		want string
	}{
		{"without a system message", Input{Messages: []Message{user}, AddGenerationPrompt: true}, defaultSystem + asked + "<|im_start|>assistant\n"},
		{"with one", Input{Messages: []Message{{Role: "system", Content: " Be brief.\n"}, user}},
			"<|im_start|>system\n Be brief.\n<|im_end|>\n" + asked},
		{"several turns", Input{Messages: []Message{user, {Role: "assistant", Content: "Paris"}, user}, AddGenerationPrompt: true},
			defaultSystem + asked + "<|im_start|>assistant\nParis<|im_end|>\n" + asked + "<|im_start|>assistant\n"},
	} {
		segments, err := tmpl.Render(t.Context(), c.in)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := Join(segments); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
}

// shared is a set of templates, conversations and reference renders.
type shared struct {
	templates     map[string]string
	conversations map[string]Input
	renders       map[string]map[string]map[string]string // template, conversation, "ok" or "err"
}

func readShared(t testing.TB, dir string) (s shared) {
	t.Helper()
	var conversations map[string]json.RawMessage
	for name, into := range map[string]any{"templates": &s.templates, "conversations": &conversations, "reference-renders": &s.renders} {
		data, err := os.ReadFile(filepath.Join(dir, name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	s.conversations = map[string]Input{}
	for name, raw := range conversations {
		v, err := DecodeJSON(raw)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s.conversations[name] = inputOf(v.(Object))
	}
	return s
}

func inputOf(o Object) (in Input) {
	for _, f := range o {
		switch f.Name {
		case "messages":
			for _, m := range f.Value.([]any) {
				in.Messages = append(in.Messages, messageOf(m.(Object)))
			}
		case "tools":
			in.Tools = f.Value.([]any)
		case "bos_token":
			in.BOS = f.Value.(string)
		case "eos_token":
			in.EOS = f.Value.(string)
		case "add_generation_prompt":
			in.AddGenerationPrompt = f.Value.(bool)
		default:
			in.Variables = append(in.Variables, f)
		}
	}
	return in
}

func messageOf(o Object) (m Message) {
	for _, f := range o {
		switch f.Name {
		case "role":
			m.Role = f.Value.(string)
		case "content":
			m.Content = f.Value
		default:
			m.More = append(m.More, f)
		}
	}
	return m
}

// compareAll renders everything and sorts the outcomes: exact, another text than the
// reference, an error where the reference has text, text where it has an error.
func compareAll(t *testing.T, s shared) (exact, otherText, onlyOurError, noError int) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(s.templates)) {
		tmpl, parseErr := Parse(s.templates[name], Options{ControlTexts: control(),
			Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }})
		for _, conversation := range slices.Sorted(maps.Keys(s.renders[name])) {
			want, wantText := s.renders[name][conversation]["ok"]
			var segments []tokenizer.Segment
			err := parseErr
			if err == nil {
				segments, err = tmpl.Render(t.Context(), s.conversations[conversation])
			}
			switch {
			case wantText && err != nil:
				onlyOurError++
				t.Logf("%s, %s: %v", name, conversation, err)
			case !wantText && err == nil:
				noError++
			case !wantText && !refusedAlike(err, s.renders[name][conversation]["err"]):
				noError++
				t.Logf("%s, %s: %v", name, conversation, err)
			case wantText && Join(segments) != want:
				otherText++
				t.Logf("%s, %s: %q", name, conversation, Join(segments))
			default:
				exact++
			}
		}
	}
	return exact, otherText, onlyOurError, noError
}

// refusedAlike reports whether an error is the reference's: a refusal with the same message,
// or an undefined value by the same name. The references are cut after 100 characters.
func refusedAlike(err error, want string) bool {
	class, message, _ := strings.Cut(want, ": ")
	var refused *Refused
	if errors.As(err, &refused) != (class == "TemplateError") {
		return false
	}
	if refused != nil {
		return strings.HasPrefix(refused.Message, message)
	}
	return strings.Contains(err.Error(), message)
}

func TestSelectedTemplatesRenderAsJinja2(t *testing.T) {
	s := readShared(t, "testdata")
	exact, otherText, onlyOurError, noError := compareAll(t, s)
	if otherText+onlyOurError+noError > 0 || exact < 50 {
		t.Errorf("%d exact, %d other texts, %d errors, %d missing errors; want all exact", exact, otherText, onlyOurError, noError)
	}
}

// The whole set runs where SWITCHYARD_DATA names the folder of shared data.
func TestAllTemplatesRenderAsJinja2(t *testing.T) {
	dir := os.Getenv("SWITCHYARD_DATA")
	if dir == "" {
		t.Skip("SWITCHYARD_DATA is not set: the whole set of templates did not run")
	}
	exact, otherText, onlyOurError, noError := compareAll(t, readShared(t, filepath.Join(dir, "chat-templates")))
	t.Logf("%d renders are exact, %d have another text, %d an error of ours, %d miss an error", exact, otherText, onlyOurError, noError)
	if otherText+onlyOurError+noError > 0 || exact < 765 {
		t.Errorf("want all 765 exact")
	}
}

func TestRefusalsCarryTheTemplatesMessage(t *testing.T) {
	for _, source := range []string{
		`{{ raise_exception('roles must ' ~ 'alternate') }}`,
		`{% macro f() %}{{ raise_exception('roles must alternate') }}{% endmacro %}{{ 'text'[f():] }}`,
	} {
		_, err := parse(t, source).Render(t.Context(), Input{})
		var refused *Refused
		if !errors.As(err, &refused) || refused.Message != "roles must alternate" {
			t.Errorf("%s: error %v, want a Refused", source, err)
		}
	}
}

func TestStrftimeNowUsesTheClock(t *testing.T) {
	got := render(t, `{{ strftime_now('%d %b %Y, %-d. %B %y, %H:%M:%S %j %A %p %% %Q') }}`, Input{})
	if want := "02 Jan 2026, 2. January 26, 03:04:05 002 Friday AM % %Q"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestContextEndsARendering(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := parse(t, `{% for m in messages %}x{% endfor %}`).Render(ctx, Input{Messages: []Message{{Role: "user", Content: "a"}}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want a cancel", err)
	}
}

func TestInputErrorsNameTheField(t *testing.T) {
	in := Input{Messages: []Message{{Role: "user", Content: "a"}, {Role: "user", More: Object{{"x", []any{struct{}{}}}}}}}
	_, err := parse(t, `{{ messages }}`).Render(t.Context(), in)
	if want := `message 1: "x": element 0: has type struct {}`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %s", err, want)
	}
	if _, err := Parse("", Options{}); err == nil || !strings.Contains(err.Error(), "ControlTexts") {
		t.Errorf("error %v, want one that names ControlTexts", err)
	}
}

func TestTakesParts(t *testing.T) {
	for source, want := range map[string]bool{
		`{% for m in messages %}{{ m.content }}{% endfor %}`:                                                                            false,
		`{% for m in messages %}{{ 'a' + m.content }}{% endfor %}`:                                                                      false,
		`{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}`:                                           true,
		`{{ raise_exception('no') }}`:                                                                                                   false,
		`{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{{ m.content[0]['text'] }}{% endif %}{% endfor %}`: true,
	} {
		if got := parse(t, source).TakesParts(); got != want {
			t.Errorf("%s takes parts: %v, want %v", source, got, want)
		}
	}
}
