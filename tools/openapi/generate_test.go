package main

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/structpb"
)

// described makes a file of the dialect from its descriptor; what every file says is left out.
func described(t *testing.T, text string) protoreflect.FileDescriptor {
	t.Helper()
	file, err := fileOf(text)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func fileOf(text string) (protoreflect.FileDescriptor, error) {
	in := &descriptorpb.FileDescriptorProto{}
	const head = `name: "tiny.proto" package: "switchyard.openai.v1" syntax: "proto3" dependency: "google/protobuf/struct.proto" `
	if err := prototext.Unmarshal([]byte(head+text), in); err != nil {
		return nil, err
	}
	files := &protoregistry.Files{}
	if err := files.RegisterFile(structpb.File_google_protobuf_struct_proto); err != nil {
		return nil, err
	}
	return protodesc.NewFile(in, files)
}

func textOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v, json.Deterministic(true), jsontext.SpaceAfterComma(true))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Each message is one rule of schema.proto.
func TestMessagesBecomeSchemas(t *testing.T) {
	const messages = `
	message_type { name: "Object"
		field { name: "required" number: 1 type: TYPE_STRING }
		field { name: "left_out" number: 2 type: TYPE_MESSAGE type_name: ".switchyard.openai.v1.Array" proto3_optional: true oneof_index: 0 }
		oneof_decl { name: "_left_out" } }
	message_type { name: "Union"
		field { name: "text" number: 1 type: TYPE_STRING oneof_index: 0 options { [switchyard.openai.v1.schema] { min_length: 1 } } }
		field { name: "many" number: 2 type: TYPE_MESSAGE type_name: ".switchyard.openai.v1.Array" oneof_index: 0 }
		oneof_decl { name: "any_of" } }
	message_type { name: "Array"
		field { name: "items" number: 1 type: TYPE_UINT32 label: LABEL_REPEATED
			options { [switchyard.openai.v1.schema] { maximum: 9 min_items: 1 max_items: 2 } } } }
	message_type { name: "Names"
		field { name: "members" number: 1 type: TYPE_MESSAGE label: LABEL_REPEATED type_name: ".switchyard.openai.v1.Names.MembersEntry"
			options { [switchyard.openai.v1.schema] { minimum: -1 max_items: 3 } } }
		nested_type { name: "MembersEntry" options { map_entry: true }
			field { name: "key" number: 1 type: TYPE_UINT32 label: LABEL_OPTIONAL }
			field { name: "value" number: 2 type: TYPE_DOUBLE label: LABEL_OPTIONAL } } }
	message_type { name: "Values"
		field { name: "word" number: 1 type: TYPE_STRING options { [switchyard.openai.v1.schema] { values: ["a", "b"] nullable: true } } }
		field { name: "never" number: 2 type: TYPE_BOOL options { [switchyard.openai.v1.schema] { values: "false" default: "false" } } } }
	message_type { name: "Outer"
		field { name: "first" number: 1 type: TYPE_INT64 }
		field { name: "inner" number: 2 type: TYPE_MESSAGE type_name: ".switchyard.openai.v1.Inner" options { [switchyard.openai.v1.schema] { inline: true } } }
		field { name: "last" number: 3 type: TYPE_BOOL label: LABEL_REPEATED options { [switchyard.openai.v1.schema] { optional: true } } } }
	message_type { name: "Inner"
		field { name: "free" number: 1 type: TYPE_MESSAGE type_name: ".google.protobuf.Struct" } }`
	file := described(t, messages)
	for name, want := range map[protoreflect.Name]string{
		"Object": `{"type":"object", "properties":{"required":{"type":"string"}, "left_out":{"anyOf":[{"$ref":"#/components/schemas/Array"}, {"type":"null"}]}}, "required":["required"]}`,
		"Union":  `{"anyOf":[{"type":"string", "minLength":1}, {"$ref":"#/components/schemas/Array"}]}`,
		"Array":  `{"type":"array", "minItems":1, "maxItems":2, "items":{"type":"integer", "minimum":0, "maximum":9}}`,
		"Names":  `{"type":"object", "maxProperties":3, "propertyNames":{"pattern":"^(0|[1-9][0-9]*)$"}, "additionalProperties":{"type":"number", "minimum":-1}}`,
		"Values": `{"type":"object", "properties":{"word":{"type":["string", "null"], "enum":["a", "b", null]}, "never":{"type":"boolean", "enum":[false], "default":false}}, "required":["word", "never"]}`,
		"Outer":  `{"type":"object", "properties":{"first":{"type":"integer", "format":"int64"}, "free":{"type":"object"}, "last":{"type":["array", "null"], "items":{"type":"boolean"}}}, "required":["first", "free"]}`,
	} {
		got, err := ofMessage(file.Messages().ByName(name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, textOf(t, got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestMessagesWithoutASchemaAreRefused(t *testing.T) {
	for fields, want := range map[string]string{
		`field { name: "a" number: 1 type: TYPE_BYTES }`:                                                             "bytes",
		`field { name: "a" number: 1 type: TYPE_STRING oneof_index: 0 } oneof_decl { name: "either" }`:               "any_of",
		`field { name: "a" number: 1 type: TYPE_STRING options { [switchyard.openai.v1.schema] { default: "x" } } }`: "no JSON",
		`field { name: "a" number: 1 type: TYPE_INT32 options { [switchyard.openai.v1.schema] { values: "1" } } }`:   "no value",
		`field { name: "a" number: 1 type: TYPE_MESSAGE type_name: ".google.protobuf.Value" }`:                       "google.protobuf.Value",
		`field { name: "a" number: 1 type: TYPE_MESSAGE type_name: ".switchyard.openai.v1.B" options { [switchyard.openai.v1.schema] { inline: true } } }
		 field { name: "b" number: 2 type: TYPE_BOOL }`: "has the name",
	} {
		file := described(t, `message_type { name: "A" `+fields+` } message_type { name: "B" field { name: "b" number: 1 type: TYPE_BOOL } }`)
		if _, err := ofMessage(file.Messages().ByName("A")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error about %q", fields, err, want)
		}
	}
}

func TestCommentsBecomeDescriptions(t *testing.T) {
	file := described(t, `
	message_type { name: "A" field { name: "a" number: 1 type: TYPE_STRING } }
	source_code_info {
		location { path: [4, 0] span: [1, 0, 9] leading_comments: " A is one thing; or\n another. More.\n\n And more.\n" }
		location { path: [4, 0, 2, 0] span: [2, 0, 9] leading_comments: " In bytes.\n" } }`)
	message := file.Messages().ByName("A")
	got, err := ofMessage(message)
	if err != nil {
		t.Fatal(err)
	}
	if want := "A is one thing; or another. More.\n\nAnd more."; got.Description != want {
		t.Errorf("%q, want %q", got.Description, want)
	}
	if got := got.Properties[0].schema.Description; got != "In bytes." {
		t.Errorf("%q", got)
	}
	if got := sentence(message); got != "Is one thing." {
		t.Errorf("%q", got)
	}
}
