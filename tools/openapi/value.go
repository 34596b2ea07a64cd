package main

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	openaiv1 "github.com/switchyard-llm/switchyard/proto/switchyard/openai/v1"
)

// element is the schema of one value of a field, within what the rules say of it.
func element(field protoreflect.FieldDescriptor, rules *openaiv1.Schema) (*schema, error) {
	s, err := ofKind(field)
	if err != nil {
		return nil, err
	}
	if rules.Minimum != nil {
		s.Minimum = rules.Minimum
	}
	s.Maximum, s.Above, s.MinLength, s.MaxLength = rules.Maximum, rules.ExclusiveMinimum, rules.MinLength, rules.MaxLength
	for _, value := range rules.GetValues() {
		v, err := valueOf(field, value)
		if err != nil {
			return nil, err
		}
		s.Enum = append(s.Enum, v)
	}
	return s, nil
}

// ofKind is the schema of all values of a type.
func ofKind(field protoreflect.FieldDescriptor) (*schema, error) {
	switch field.Kind() {
	case protoreflect.StringKind:
		return &schema{Type: "string"}, nil
	case protoreflect.BoolKind:
		return &schema{Type: "boolean"}, nil
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		return &schema{Type: "integer", Format: field.Kind().String()}, nil
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return &schema{Type: "integer", Minimum: new(float64)}, nil
	case protoreflect.DoubleKind:
		return &schema{Type: "number"}, nil
	case protoreflect.MessageKind:
		return ofMessageKind(field.Message())
	}
	return nil, fmt.Errorf("the kind %s has no schema", field.Kind())
}

func ofMessageKind(message protoreflect.MessageDescriptor) (*schema, error) {
	switch {
	case message.FullName() == "google.protobuf.Struct":
		return &schema{Type: "object"}, nil
	case message.ParentFile().Package() == dialect:
		return refTo(message.Name()), nil
	}
	return nil, fmt.Errorf("the message %s has no schema", message.FullName())
}

func valueOf(field protoreflect.FieldDescriptor, value string) (any, error) {
	switch {
	case field.Kind() == protoreflect.StringKind:
		return value, nil
	case field.Kind() == protoreflect.BoolKind && (value == "true" || value == "false"):
		return value == "true", nil
	}
	return nil, fmt.Errorf("%q is no value of a %s", value, field.Kind())
}

// names is the schema of the names of an object: those of numbers have one spelling.
func names(key protoreflect.FieldDescriptor) *schema {
	if key.Kind() == protoreflect.StringKind {
		return nil
	}
	return &schema{Pattern: "^(0|[1-9][0-9]*)$"}
}

// onlyBoolean is the only value of a boolean that has but one.
func onlyBoolean(s *schema) (value, ok bool) {
	if s.Type != "boolean" || len(s.Enum) != 1 {
		return false, false
	}
	value, ok = s.Enum[0].(bool)
	return value, ok
}

// orNull admits null as well.
func orNull(s *schema) *schema {
	null := &schema{Type: "null"}
	if s.Ref != "" {
		return &schema{AnyOf: []*schema{s, null}}
	}
	if only, ok := onlyBoolean(s); ok { // generators stumble over an enumeration of false and null
		return &schema{AnyOf: []*schema{{Type: s.Type, Const: &only}, null}}
	}
	s.Type = []any{s.Type, null.Type}
	if s.Enum != nil {
		s.Enum = append(s.Enum, nil)
	}
	return s
}
