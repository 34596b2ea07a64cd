// Package chattemplate writes a chat as the text that a model was trained on, by
// the Jinja template of its model file, in the dialect of Hugging Face's
// apply_chat_template.
//
// A template is code from a stranger, so two guards stand around the library that
// runs it. Parse refuses what could use memory or time out of proportion to its
// input, and Limits bound the rest while it runs (guard.go). Render tells which bytes
// of the text came out of the chat, so that a chat cannot form control tokens (trust.go).
//
// It does not know tokens; it returns segments for libs/tokenizer. A Template is
// immutable and safe for concurrent use. The package starts no goroutine.
package chattemplate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ardanlabs/jinja"

	"github.com/switchyard-llm/switchyard/libs/tokenizer"
)

// Options say what a template is rendered with.
type Options struct {
	// ControlTexts are the texts of the model's control tokens, which a chat must
	// not form. It may be empty, not nil.
	ControlTexts []string
	// Now is the clock of strftime_now; nil is time.Now.
	Now func() time.Time
	// Limits bound one rendering; zero fields take the defaults.
	Limits Limits
}

// Limits bound what one rendering may use.
type Limits struct {
	// Bytes bounds the text, all that macros and blocks write on the way to it, and
	// each variable; 8 MiB by default.
	Bytes int
	// Steps bounds passes through loops and calls of macros, and the nodes that
	// variables hold (64 count as one step); 1,000,000 by default.
	Steps int
	// Depth bounds calls of macros within calls of macros; 64 by default.
	Depth int
}

func (l Limits) withDefaults() Limits {
	if l.Bytes == 0 {
		l.Bytes = 8 << 20
	}
	if l.Steps == 0 {
		l.Steps = 1_000_000
	}
	if l.Depth == 0 {
		l.Depth = 64
	}
	return l
}

// Template is a parsed chat template.
type Template struct {
	compiled *jinja.Template
	filters  map[string]function
	opts     Options
	edges    map[rune]bool // first and last characters of the control texts
	// takesParts is what probeParts found.
	takesParts bool
}

// Refused is the error of a template that raised an exception itself, as many do
// for chats whose roles do not alternate. Its message is the template's own.
type Refused struct{ Message string }

func (r *Refused) Error() string { return "the chat template refused the chat: " + r.Message }

// ErrLimit is wrapped by the errors of templates that exceed their Limits.
var ErrLimit = errors.New("limit of the chat template exceeded")

// Parse reads a template. The error of one that is refused beforehand names the line
// and what is not allowed.
func Parse(source string, opts Options) (*Template, error) {
	if opts.ControlTexts == nil {
		return nil, errors.New("chat template: Options.ControlTexts is nil; without control tokens it is empty")
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	opts.Limits = opts.Limits.withDefaults()
	guarded, err := instrument(source)
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	compiled, err := jinja.Compile(guarded)
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	filters, err := libraryFilters()
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	t := &Template{compiled: compiled, filters: filters, opts: opts, edges: edges(opts.ControlTexts)}
	t.takesParts = t.probeParts()
	return t, nil
}

// TakesParts reports whether the template understands content as a list of parts. Where
// it does not, the caller must join text parts to one string first: such a template
// would print the list in Python's notation, or refuse it.
func (t *Template) TakesParts() bool { return t.takesParts }

func (t *Template) probeParts() bool {
	const probe = "parts-probe"
	in := Input{Messages: []Message{{Role: "user", Content: []any{Object{{"type", "text"}, {"text", probe}}}}}}
	text, _, err := t.run(context.Background(), in, nil, Limits{Bytes: 1 << 20, Steps: 10_000, Depth: t.opts.Limits.Depth})
	return err == nil && strings.Contains(text, probe) && !strings.Contains(text, "'"+probe+"'")
}

// Render writes a chat. The joined text of the segments is exactly what the template
// gives for the chat. The error is a *Refused, wraps ErrLimit or the context's, or says
// what the template did wrong.
func (t *Template) Render(ctx context.Context, in Input) ([]tokenizer.Segment, error) {
	text, steps, err := t.run(ctx, in, nil, t.opts.Limits)
	if err != nil {
		return nil, err
	}
	return t.trace(ctx, in, text, steps)
}

// Join is the text of segments.
func Join(segments []tokenizer.Segment) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteString(s.Text)
	}
	return b.String()
}

// run renders with every text of the chat passed through the mask; nil leaves them as
// they are.
func (t *Template) run(ctx context.Context, in Input, m *mask, limits Limits) (text string, steps int, err error) {
	// The library panics on some misuse, such as a slice of a number.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("chat template: %v", p)
		}
	}()
	variables, err := in.values(m)
	if err != nil {
		return "", 0, err
	}
	g := &guard{ctx: ctx, limits: limits, now: t.opts.Now, filters: t.filters}
	g.install(variables)
	text, err = t.compiled.RenderValues(variables)
	if err = cmp.Or(g.err, err); err != nil {
		var refused *Refused
		if errors.As(err, &refused) {
			return "", g.steps, refused
		}
		return "", g.steps, fmt.Errorf("chat template: %w", err)
	}
	return text, g.steps, nil
}
