package chattemplate

import (
	"fmt"

	"github.com/ardanlabs/jinja"
)

// Input is what a template sees.
type Input struct {
	Messages []Message
	// AddGenerationPrompt asks for the head of the answer after the messages.
	AddGenerationPrompt bool
	// BOS and EOS are the texts of these tokens; trusted.
	BOS, EOS string
	// Tools, if there are any, are values as DecodeJSON returns them.
	Tools []any
	// Variables are further ones by name, such as enable_thinking.
	Variables Object
}

// Message is one turn.
type Message struct {
	Role string
	// Content is a string, nil, or a list of parts as DecodeJSON returns it.
	Content any
	// More holds further fields, such as tool_calls, name or reasoning_content.
	More Object
}

// Object is a JSON object that keeps its order, which templates print.
type Object []Field

// Field is a name and its value: nil, bool, int, int64, float64, string, []any or Object.
type Field struct {
	Name  string
	Value any
}

// values converts the input to the library's values, all texts of the chat masked.
func (in Input) values(m *mask) (map[string]jinja.Value, error) {
	out := make(map[string]jinja.Value, len(in.Variables)+16)
	for _, f := range in.Variables {
		v, err := value(f.Value, m)
		if err != nil {
			return nil, fmt.Errorf("chat template variable %q: %w", f.Name, err)
		}
		out[f.Name] = v
	}
	messages := make([]jinja.Value, len(in.Messages))
	for i, message := range in.Messages {
		v, err := message.value(m)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		messages[i] = v
	}
	out["messages"] = jinja.NewList(messages)
	if in.Tools != nil {
		v, err := value(in.Tools, m)
		if err != nil {
			return nil, fmt.Errorf("tools: %w", err)
		}
		out["tools"] = v
	}
	out["add_generation_prompt"] = jinja.NewBool(in.AddGenerationPrompt)
	out["bos_token"] = jinja.NewString(in.BOS)
	out["eos_token"] = jinja.NewString(in.EOS)
	return out, nil
}

func (message Message) value(m *mask) (jinja.Value, error) {
	d := jinja.NewDict()
	d.AsDict().Set("role", jinja.NewString(m.role(message.Role)))
	content, err := value(message.Content, m)
	if err != nil {
		return d, fmt.Errorf("content: %w", err)
	}
	d.AsDict().Set("content", content)
	return d, setFields(d.AsDict(), message.More, m)
}

func setFields(d *jinja.Dict, fields Object, m *mask) error {
	for _, f := range fields {
		v, err := value(f.Value, m)
		if err != nil {
			return fmt.Errorf("%q: %w", f.Name, err)
		}
		d.Set(m.key(f.Name), v)
	}
	return nil
}

func value(v any, m *mask) (jinja.Value, error) {
	switch v := v.(type) {
	case nil:
		return jinja.None(), nil
	case bool:
		return jinja.NewBool(v), nil
	case int:
		return jinja.NewInt(int64(v)), nil
	case int64:
		return jinja.NewInt(v), nil
	case float64:
		return jinja.NewFloat(v), nil
	case string:
		return jinja.NewString(m.text(v)), nil
	case []any:
		items := make([]jinja.Value, len(v))
		for i := range v {
			item, err := value(v[i], m)
			if err != nil {
				return jinja.None(), fmt.Errorf("element %d: %w", i, err)
			}
			items[i] = item
		}
		return jinja.NewList(items), nil
	case Object:
		d := jinja.NewDict()
		return d, setFields(d.AsDict(), v, m)
	}
	return jinja.None(), fmt.Errorf("has type %T, want a string, number, bool, nil, []any or Object", v)
}
