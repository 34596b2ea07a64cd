package main

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	openaiv1 "github.com/switchyard-llm/switchyard/proto/switchyard/openai/v1"
)

// rulesOf gives the option of a field; an empty one for none.
func rulesOf(field protoreflect.FieldDescriptor) *openaiv1.Schema {
	if rules, _ := proto.GetExtension(field.Options(), openaiv1.E_Schema).(*openaiv1.Schema); rules != nil {
		return rules
	}
	return &openaiv1.Schema{}
}

// ofMessage is the schema of a message.
func ofMessage(message protoreflect.MessageDescriptor) (*schema, error) {
	s, err := shape(message)
	if err != nil {
		return nil, err
	}
	s.Description = comment(message)
	return s, nil
}

func shape(message protoreflect.MessageDescriptor) (*schema, error) {
	fields := message.Fields()
	if union := message.Oneofs().ByName("any_of"); union != nil && union.Fields().Len() == fields.Len() {
		return unionOf(union)
	}
	if fields.Len() == 1 {
		only := fields.Get(0)
		if only.Name() == "items" && only.IsList() || only.Name() == "members" && only.IsMap() {
			return ofField(only)
		}
	}
	s := &schema{Type: "object"}
	return s, addProperties(s, message)
}

func unionOf(union protoreflect.OneofDescriptor) (*schema, error) {
	s := &schema{}
	for i := range union.Fields().Len() {
		one, err := ofField(union.Fields().Get(i))
		if err != nil {
			return nil, err
		}
		s.AnyOf = append(s.AnyOf, one)
	}
	return s, nil
}

// addProperties adds the fields of a message to an object.
func addProperties(to *schema, message protoreflect.MessageDescriptor) error {
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		if union := field.ContainingOneof(); union != nil && !union.IsSynthetic() {
			return fmt.Errorf("%s: a oneof is the only one of its message and named any_of", union.FullName())
		}
		if rulesOf(field).GetInline() {
			if err := addProperties(to, field.Message()); err != nil {
				return err
			}
			continue
		}
		s, err := ofField(field)
		if err != nil {
			return err
		}
		name := string(field.Name())
		if slices.ContainsFunc(to.Properties, func(p property) bool { return p.name == name }) {
			return fmt.Errorf("%s: another member of the object has the name, too", field.FullName())
		}
		to.Properties = append(to.Properties, property{name, s})
		if !omissible(field) {
			to.Required = append(to.Required, name)
		}
	}
	return nil
}

func omissible(field protoreflect.FieldDescriptor) bool {
	return field.HasOptionalKeyword() || rulesOf(field).GetOptional()
}

// ofField is the schema of the value of a field.
func ofField(field protoreflect.FieldDescriptor) (*schema, error) {
	s, err := collection(field)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field.FullName(), err)
	}
	if omissible(field) || rulesOf(field).GetNullable() {
		s = orNull(s)
	}
	s.Description = comment(field)
	if d := rulesOf(field).GetDefault(); d != "" {
		if s.Default = jsontext.Value(d); !s.Default.IsValid() {
			return nil, fmt.Errorf("%s: the default %s is no JSON", field.FullName(), d)
		}
	}
	return s, nil
}

func collection(field protoreflect.FieldDescriptor) (*schema, error) {
	rules := rulesOf(field)
	switch {
	case field.IsMap():
		value, err := element(field.MapValue(), rules)
		return &schema{
			Type: "object", Names: names(field.MapKey()), Additional: value, MinProperties: rules.MinItems, MaxProperties: rules.MaxItems,
		}, err
	case field.IsList():
		item, err := element(field, rules)
		return &schema{Type: "array", Items: item, MinItems: rules.MinItems, MaxItems: rules.MaxItems}, err
	}
	return element(field, rules)
}
