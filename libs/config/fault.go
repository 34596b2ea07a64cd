package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// explain says of a file that cannot be decoded which keys are at fault, by their full
// names, and what was expected of them. The YAML package knows only lines and Go types. All
// faults of a file are told at once.
func explain(file string, data []byte, fields []Field, err error) error {
	if found := inspect(file, data, fields); found != nil {
		return found
	}
	return fmt.Errorf("%s: %w", file, err) // it is no YAML, or of a kind that is not looked for here
}

// inspect looks at every key of a file.
func inspect(file string, data []byte, fields []Field) error {
	var document yaml.Node
	if yaml.Unmarshal(data, &document) != nil || len(document.Content) != 1 {
		return nil
	}
	f := faults{file: file, fields: fields}
	f.section(document.Content[0], "")
	if len(f.list) == 0 {
		return nil
	}
	return errors.New(strings.Join(f.list, "; "))
}

// faults collects what is wrong with a file.
type faults struct {
	file   string
	fields []Field
	list   []string
}

func (f *faults) add(at *yaml.Node, format string, args ...any) {
	f.list = append(f.list, fmt.Sprintf("%s:%d: %s", f.file, at.Line, fmt.Sprintf(format, args...)))
}

// section looks at the keys of a struct; prefix is its own key with a dot, or empty. It goes
// no deeper than the configuration does, so that a node within itself ends as well.
func (f *faults) section(n *yaml.Node, prefix string) {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		if n.Tag != "!!null" { // a section without keys changes nothing
			f.add(n, "%s is %s, want keys with values", nameOf(prefix), shape(n))
		}
		return
	}
	lines := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		key := prefix + name.Value
		if line, again := lines[key]; again {
			f.add(name, "key %q is there twice, first in line %d", key, line)
		}
		lines[key] = name.Line
		switch field, section := f.find(key); {
		case field != nil:
			f.value(*field, value)
		case section:
			f.section(value, key+".")
		case name.Tag != "!!merge":
			f.add(name, "unknown key %q", key)
		}
	}
}

// find gives the field of a key, or says that it is a section.
func (f *faults) find(key string) (field *Field, section bool) {
	for i := range f.fields {
		if f.fields[i].Key == key {
			return &f.fields[i], false
		}
		section = section || strings.HasPrefix(f.fields[i].Key, key+".")
	}
	return nil, section
}

// value tries a field's value by itself.
func (f *faults) value(field Field, n *yaml.Node) {
	err := n.Decode(reflect.New(field.value.Type()).Interface())
	n = resolve(n)
	cut := field.value.CanInt() && n.Tag == "!!float" // the YAML package would drop the fraction
	if err == nil && !cut {
		return
	}
	want := "want " + wanted(field.value.Type())
	if typed := (*yaml.TypeError)(nil); n.Kind == yaml.ScalarNode && !cut && !errors.As(err, &typed) {
		want = err.Error() // of the field's own UnmarshalText
	}
	f.add(n, "%s is %s, %s", field.Key, shape(n), want)
}

func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func nameOf(prefix string) string {
	if prefix == "" {
		return "the document"
	}
	return strings.TrimSuffix(prefix, ".")
}

// shape is what a value looks like to who wrote it.
func shape(n *yaml.Node) string {
	switch n.Kind {
	case yaml.SequenceNode:
		return "a list"
	case yaml.MappingNode:
		return "a section of keys"
	}
	return fmt.Sprintf("%q", n.Value)
}
