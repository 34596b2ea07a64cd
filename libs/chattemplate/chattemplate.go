// Package chattemplate writes a chat as the text that a model was trained on, by
// the Jinja template of its model file, in the dialect of Hugging Face's
// apply_chat_template.
//
// libs/jinja runs the template, within limits, and tells which bytes of the text came out
// of the chat, so that a chat cannot form control tokens. This package says what a
// chat is to a template: its variables, its functions, and what of it is trusted. It also
// finds out, when it parses a template, which parts of a chat the template takes at all
// (probe.go).
//
// It does not know tokens; it returns segments for libs/tokenizer. A Template is
// immutable and safe for concurrent use. The package starts no goroutine.
package chattemplate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/switchyard-llm/switchyard/libs/jinja"
	"github.com/switchyard-llm/switchyard/libs/tokenizer"
)

// Options say what a template is rendered with.
type Options struct {
	// ControlTexts are the texts of the model's control tokens, which a chat must
	// not form. It may be empty, not nil: without control tokens all text is trusted.
	ControlTexts []string
	// Now is the clock of strftime_now; nil is time.Now.
	Now func() time.Time
	// Limits bound one rendering; zero fields take the defaults.
	Limits Limits
}

// Limits bound what one rendering may use. The defaults grow with the chat.
type Limits = jinja.Limits

// Template is a parsed chat template.
type Template struct {
	program *jinja.Template
	opts    Options
	takes   takes
}

// Refused is the error of a template that raised an exception itself, as many do
// for chats whose roles do not alternate. Its message is the template's own.
type Refused struct{ Message string }

func (r *Refused) Error() string { return "the chat template refused the chat: " + r.Message }

// ErrLimit is wrapped by the errors of templates that exceed their Limits.
var ErrLimit = jinja.ErrLimit

// Parse reads a template. The error of one that is refused names the line and what is not
// supported.
func Parse(source string, opts Options) (*Template, error) {
	if opts.ControlTexts == nil {
		return nil, errors.New("chat template: Options.ControlTexts is nil; without control tokens it is empty")
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	program, err := jinja.Parse(source)
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	t := &Template{program: program, opts: opts}
	t.takes = t.probe()
	return t, nil
}

// Render writes a chat. The joined text of the segments is exactly what the template
// gives for the chat. The error is a *Refused, wraps ErrLimit or the context's, or says
// what the template did wrong.
func (t *Template) Render(ctx context.Context, in Input) ([]tokenizer.Segment, error) {
	text, err := t.run(ctx, in, t.opts.Limits)
	if err != nil {
		return nil, err
	}
	if len(t.opts.ControlTexts) == 0 {
		return []tokenizer.Segment{{Text: text.String(), Trusted: true}}, nil
	}
	segments := make([]tokenizer.Segment, 0, text.Len())
	for s, trusted := range text.All() {
		segments = append(segments, tokenizer.Segment{Text: s, Trusted: trusted})
	}
	return segments, nil
}

// Join is the text of segments.
func Join(segments []tokenizer.Segment) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteString(s.Text)
	}
	return b.String()
}

func (t *Template) run(ctx context.Context, in Input, limits Limits) (jinja.Text, error) {
	c := converter{}
	variables, err := c.variables(in)
	if err != nil {
		return jinja.Text{}, err
	}
	variables = append(variables, t.functions()...)
	text, err := t.program.Render(ctx, variables, c.sizeBytes, limits)
	var refused *Refused
	switch {
	case err == nil:
		return text, nil
	case errors.As(err, &refused):
		return text, refused
	}
	return text, fmt.Errorf("chat template: %w", err)
}
