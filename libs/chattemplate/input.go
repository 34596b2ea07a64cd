package chattemplate

import (
	"fmt"
	"math/big"

	"github.com/switchyard-llm/switchyard/libs/jinja"
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

// Field is a name and its value: nil, bool, int, int64, *big.Int, float64, string, []any or
// Object.
type Field struct {
	Name  string
	Value any
}

// valueBytes is about what a value takes by itself.
const valueBytes = 64

// converter turns the input into values of the template language, as texts of the chat, and
// adds up how large they are.
type converter struct{ sizeBytes int }

func (c *converter) variables(in Input) ([]jinja.Variable, error) {
	out := make([]jinja.Variable, 0, len(in.Variables)+8)
	for _, f := range in.Variables {
		v, err := c.value(f.Value)
		if err != nil {
			return nil, fmt.Errorf("chat template variable %q: %w", f.Name, err)
		}
		out = append(out, jinja.Variable{Name: f.Name, Value: v})
	}
	messages := make([]jinja.Value, len(in.Messages))
	for i, message := range in.Messages {
		v, err := c.message(message)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		messages[i] = v
	}
	out = append(out, jinja.Variable{Name: "messages", Value: jinja.List(messages)})
	if in.Tools != nil {
		v, err := c.value(in.Tools)
		if err != nil {
			return nil, fmt.Errorf("tools: %w", err)
		}
		out = append(out, jinja.Variable{Name: "tools", Value: v})
	}
	return append(out,
		jinja.Variable{Name: "add_generation_prompt", Value: jinja.Bool(in.AddGenerationPrompt)},
		jinja.Variable{Name: "bos_token", Value: jinja.String(in.BOS)},
		jinja.Variable{Name: "eos_token", Value: jinja.String(in.EOS)},
	), nil
}

func (c *converter) message(m Message) (jinja.Value, error) {
	var d jinja.Dict
	d.Grow(2 + len(m.More))
	d.Set("role", false, c.role(m.Role))
	content, err := c.value(m.Content)
	if err != nil {
		return content, fmt.Errorf("content: %w", err)
	}
	d.Set("content", false, content)
	if err := c.fields(&d, m.More); err != nil {
		return content, err
	}
	return d.Value(), nil
}

// role trusts the roles that templates know, which are safe to print.
func (c *converter) role(s string) jinja.Value {
	c.sizeBytes += valueBytes + len(s)
	switch s {
	case "system", "developer", "user", "assistant", "tool", "function":
		return jinja.String(s)
	}
	return jinja.Chat(s)
}

func (c *converter) fields(d *jinja.Dict, fields Object) error {
	for _, f := range fields {
		v, err := c.value(f.Value)
		if err != nil {
			return fmt.Errorf("%q: %w", f.Name, err)
		}
		c.sizeBytes += len(f.Name)
		d.Set(f.Name, true, v)
	}
	return nil
}

func (c *converter) value(v any) (jinja.Value, error) {
	c.sizeBytes += valueBytes
	switch v := v.(type) {
	case nil:
		return jinja.None().OfChat(), nil
	case bool:
		return jinja.Bool(v).OfChat(), nil
	case int:
		return jinja.Int(int64(v)).OfChat(), nil
	case int64:
		return jinja.Int(v).OfChat(), nil
	case *big.Int:
		return jinja.BigInt(v).OfChat(), nil
	case float64:
		return jinja.Float(v).OfChat(), nil
	case string:
		c.sizeBytes += len(v)
		return jinja.Chat(v), nil
	case []any:
		items := make([]jinja.Value, len(v))
		for i := range v {
			item, err := c.value(v[i])
			if err != nil {
				return jinja.None(), fmt.Errorf("element %d: %w", i, err)
			}
			items[i] = item
		}
		return jinja.List(items), nil
	case Object:
		var d jinja.Dict
		d.Grow(len(v))
		if err := c.fields(&d, v); err != nil {
			return jinja.None(), err
		}
		return d.Value(), nil
	}
	return jinja.None(), fmt.Errorf("has type %T, want a string, number, bool, nil, []any or Object", v)
}
