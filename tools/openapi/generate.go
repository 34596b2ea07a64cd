package main

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// dialect is the package whose messages are the schemas.
const dialect = "switchyard.openai.v1"

//go:embed base.json
var base []byte

// generate writes the document.
func generate(files *protoregistry.Files) ([]byte, error) {
	var doc document
	if err := json.Unmarshal(base, &doc, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("read base.json: %w", err)
	}
	if err := addPaths(&doc, files); err != nil {
		return nil, err
	}
	if err := addSchemas(&doc, files); err != nil {
		return nil, err
	}
	text, err := json.Marshal(&doc, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return nil, err
	}
	return append(text, '\n'), checkReferences(&doc, text)
}

// addPaths adds the operations of all services.
func addPaths(doc *document, files *protoregistry.Files) (err error) {
	files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				if err = addOperation(doc, methods.Get(j)); err != nil {
					err = fmt.Errorf("%s: %w", methods.Get(j).FullName(), err)
					return false
				}
			}
		}
		return true
	})
	return err
}

// addSchemas adds the messages of the dialect, but those that describe it.
func addSchemas(doc *document, files *protoregistry.Files) (err error) {
	doc.Components.Schemas = map[string]*schema{}
	inlined := map[protoreflect.FullName]bool{}
	var all []protoreflect.MessageDescriptor
	files.RangeFilesByPackage(dialect, func(file protoreflect.FileDescriptor) bool {
		if file.Extensions().Len() > 0 {
			return true
		}
		for i := range file.Messages().Len() {
			message := file.Messages().Get(i)
			all = append(all, message)
			for j := range message.Fields().Len() {
				if field := message.Fields().Get(j); rulesOf(field).GetInline() {
					inlined[field.Message().FullName()] = true
				}
			}
		}
		return true
	})
	for _, message := range all {
		if inlined[message.FullName()] {
			continue
		}
		if doc.Components.Schemas[string(message.Name())], err = ofMessage(message); err != nil {
			return err
		}
	}
	return nil
}

// schemaPrefix is what references to schemas begin with.
const schemaPrefix = "#/components/schemas/"

func refTo(message protoreflect.Name) *schema { return &schema{Ref: schemaPrefix + string(message)} }

var references = regexp.MustCompile(`"\$ref": "` + schemaPrefix + `(\w+)"`)

// checkReferences makes sure that every schema that is named is there, and the reverse: a message
// that nothing leads to describes nothing.
func checkReferences(doc *document, text []byte) error {
	named := map[string]bool{}
	for _, match := range references.FindAllSubmatch(text, -1) {
		named[string(match[1])] = true
		if doc.Components.Schemas[string(match[1])] == nil {
			return fmt.Errorf("%s has no message %s", dialect, match[1])
		}
	}
	var idle []string
	for name := range doc.Components.Schemas {
		if !named[name] {
			idle = append(idle, name)
		}
	}
	if len(idle) > 0 {
		slices.Sort(idle)
		return fmt.Errorf("nothing leads to the messages %v of %s", idle, dialect)
	}
	return nil
}
