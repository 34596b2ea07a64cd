package hfjson

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// postProcessor is what the post-processors of a file put around a sequence.
type postProcessor struct {
	prefix, suffix []around
}

// around is a token that a post-processor adds, and where the file has it.
type around struct {
	id   int
	path string
}

// read adds what a post-processor puts around what those before it have put.
func (p *postProcessor) read(path string, value jsontext.Value, depth int) error {
	if value.Kind() == 'n' {
		return nil
	}
	o := newObject(path, value)
	switch kind := o.text("type"); kind {
	case "ByteLevel": // moves offsets
		o.option("add_prefix_space", true)
		o.option("trim_offsets", true)
		o.option("use_regex", true)
	case "BertProcessing", "RobertaProcessing":
		o.option("add_prefix_space", true) // of offsets, too
		o.option("trim_offsets", true)
		p.wrap([]around{marker(&o, "cls")}, []around{marker(&o, "sep")})
	case "TemplateProcessing":
		p.template(&o)
	case "Sequence":
		processors := o.need("processors", '[')
		if err := o.close(); err != nil {
			return err
		}
		return each(join(path, "processors"), processors, depth, func(path string, value jsontext.Value) error {
			return p.read(path, value, depth+1)
		})
	default:
		o.fail("type", "is %q, which is not done", clip(kind))
	}
	return o.close()
}

func (p *postProcessor) wrap(prefix, suffix []around) {
	p.prefix = append(prefix, p.prefix...)
	p.suffix = append(p.suffix, suffix...)
}

// marker reads the token of a BertProcessing: ["[CLS]", 101].
func marker(o *object, name string) (out around) {
	out.path = join(o.path, name)
	value := o.need(name, '[')
	if value == nil {
		return out
	}
	text, number, err := pair(value)
	if err == nil && (text.Kind() != '"' || number.Kind() != '0') {
		err = fmt.Errorf(`is %s, want ["text", id]`, clip(value))
	}
	if err == nil {
		out.id, err = count(number)
	}
	if err != nil {
		o.fail(name, "%v", err)
	}
	return out
}

// template reads a TemplateProcessing, of which only the template of a single sequence matters.
func (p *postProcessor) template(o *object) {
	o.value("pair")
	single := o.need("single", '[')
	tokens := specialTokens(o)
	if o.err != nil {
		return
	}
	var sides [2][]around
	side := 0 // 1 from the sequence on
	o.err = each(join(o.path, "single"), single, 0, func(path string, value jsontext.Value) error {
		token, isToken, err := piece(path, value)
		switch ids, known := tokens[token]; {
		case err != nil:
			return err
		case !isToken && side == 1:
			return fmt.Errorf("%s is a second sequence", path)
		case !isToken:
			side = 1
		case !known:
			return fmt.Errorf("%s is %q, which is not in %s.special_tokens", path, clip(token), o.path)
		default:
			sides[side] = append(sides[side], ids...)
		}
		return nil
	})
	if side == 0 {
		o.fail("single", "has no sequence")
	}
	p.wrap(sides[0], sides[1])
}

// piece reads {"SpecialToken": {"id": …, "type_id": …}} or {"Sequence": {"id": "A", "type_id": …}}.
func piece(path string, value jsontext.Value) (token string, isToken bool, err error) {
	outer := newObject(path, value)
	name := "Sequence"
	if _, isToken = outer.value("SpecialToken"); isToken {
		name = "SpecialToken"
	}
	inner := outer.need(name, '{')
	if err := outer.close(); err != nil {
		return "", false, err
	}
	o := newObject(join(path, name), inner)
	o.value("type_id")
	if isToken {
		token = o.text("id")
	} else {
		o.choice("id", "A")
	}
	return token, isToken, o.close()
}

// specialTokens reads the tokens that a template names.
func specialTokens(o *object) map[string][]around {
	value := o.need("special_tokens", '{')
	if value == nil {
		return nil
	}
	all := newObject(join(o.path, "special_tokens"), value)
	out := map[string][]around{}
	for _, m := range all.members {
		t := newObject(join(all.path, m.name), m.value)
		t.value("id")
		t.value("tokens")
		ids := t.need("ids", '[')
		if all.err = t.close(); all.err != nil {
			break
		}
		all.err = each(join(t.path, "ids"), ids, 0, func(path string, value jsontext.Value) error {
			id, err := count(value)
			if err != nil {
				return fmt.Errorf("%s is %w", path, err)
			}
			out[m.name] = append(out[m.name], around{id, path})
			return nil
		})
		if all.err != nil {
			break
		}
	}
	o.err = all.err
	return out
}

// resolve gives the ids, all of them below a number of tokens.
func (p *postProcessor) resolve(tokens int) (prefix, suffix []uint32, err error) {
	for _, a := range slices.Concat(p.prefix, p.suffix) {
		if a.id >= tokens {
			return nil, nil, fmt.Errorf("%s is %d, want less than the vocabulary's %d", a.path, a.id, tokens)
		}
	}
	return ids(p.prefix), ids(p.suffix), nil
}

func ids(of []around) (out []uint32) {
	for _, a := range of {
		out = append(out, uint32(a.id))
	}
	return out
}
