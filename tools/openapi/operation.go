package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	openaiv1 "github.com/switchyard-llm/switchyard/proto/switchyard/openai/v1"
)

const (
	contentJSON   = "application/json"
	contentEvents = "text/event-stream"
)

// addOperation adds the operation of an RPC that is served over HTTP.
func addOperation(doc *document, method protoreflect.MethodDescriptor) error {
	rule, _ := proto.GetExtension(method.Options(), annotations.E_Http).(*annotations.HttpRule)
	bodies, _ := proto.GetExtension(method.Options(), openaiv1.E_Bodies).(*openaiv1.Bodies)
	switch {
	case rule == nil && bodies == nil:
		return nil
	case rule == nil || bodies.GetAnswer() == "":
		return errors.New("want both google.api.http and switchyard.openai.v1.bodies with an answer, or neither")
	case len(rule.GetAdditionalBindings()) > 0:
		return errors.New("want one binding of google.api.http")
	}
	verb, template, err := routeOf(rule)
	if err != nil {
		return err
	}
	if (bodies.GetRequest() != "") != (rule.GetBody() == "*") {
		return errors.New(`want a message for the request where google.api.http has body: "*", and only there`)
	}
	op := &operation{ID: string(method.Name()), Summary: sentence(method), Responses: responses(bodies)}
	if op.Parameters, err = parameters(method.Input(), template, bodies); err != nil {
		return err
	}
	if bodies.GetRequest() != "" {
		op.RequestBody = &requestBody{Required: true, Content: map[string]media{contentJSON: {refTo(protoreflect.Name(bodies.GetRequest()))}}}
	}
	return addTo(doc, variable.ReplaceAllString(template, "{$1}"), verb, op)
}

func addTo(doc *document, at, verb string, op *operation) error {
	if doc.Paths[at] == nil {
		doc.Paths[at] = path{}
	}
	if doc.Paths[at][verb] != nil {
		return fmt.Errorf("%s %s is there twice", verb, at)
	}
	doc.Paths[at][verb] = op
	return nil
}

func routeOf(rule *annotations.HttpRule) (verb, template string, err error) {
	switch p := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		return "get", p.Get, nil
	case *annotations.HttpRule_Post:
		return "post", p.Post, nil
	}
	return "", "", errors.New("want a get or a post")
}

// variable is one of a path, whose pattern OpenAPI has no words for.
var variable = regexp.MustCompile(`\{(\w+)(?:=[^}]*)?\}`)

// parameters are those of the path, and the headers that the answer looks at.
func parameters(input protoreflect.MessageDescriptor, template string, bodies *openaiv1.Bodies) ([]*parameter, error) {
	var all []*parameter
	for _, match := range variable.FindAllStringSubmatch(template, -1) {
		field := input.Fields().ByName(protoreflect.Name(match[1]))
		if field == nil {
			return nil, fmt.Errorf("%s has no field %s", input.FullName(), match[1])
		}
		s, err := ofField(field)
		if err != nil {
			return nil, err
		}
		description := s.Description
		s.Description = ""
		all = append(all, &parameter{Name: match[1], In: "path", Description: description, Required: true, Schema: s})
	}
	all = append(all, &parameter{Ref: "#/components/parameters/RequestID"})
	if bodies.GetEvent() != "" {
		all = append(all, &parameter{Ref: "#/components/parameters/Worker"})
	}
	return all, nil
}

func responses(bodies *openaiv1.Bodies) map[string]*response {
	ok := &response{
		Description: "The answer.",
		Headers:     map[string]reference{"X-Request-Id": {"#/components/headers/RequestID"}},
		Content:     map[string]media{contentJSON: {refTo(protoreflect.Name(bodies.GetAnswer()))}},
	}
	if bodies.GetRequest() != "" {
		ok.Headers["X-Switchyard-Ignored"] = reference{"#/components/headers/Ignored"}
	}
	if bodies.GetEvent() != "" {
		ok.Description = "The answer; with stream, events, of which the schema is that of each one's data."
		ok.Content[contentEvents] = media{refTo(protoreflect.Name(bodies.GetEvent()))}
	}
	failed := &response{Ref: "#/components/responses/Failed"}
	return map[string]*response{"200": ok, "4XX": failed, "5XX": failed}
}

// sentence is the first sentence, or half of one, of what is said of a descriptor, without its name.
func sentence(d protoreflect.Descriptor) string {
	text := strings.TrimPrefix(comment(d), string(d.Name())+" ")
	for _, end := range []string{";", ". "} {
		text, _, _ = strings.Cut(text, end)
	}
	text = strings.TrimSuffix(text, ".")
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// comment is what is said of a descriptor, one line for each paragraph.
func comment(d protoreflect.Descriptor) string {
	lines := strings.Split(d.ParentFile().SourceLocations().ByDescriptor(d).LeadingComments, "\n")
	for i, line := range lines {
		if lines[i] = strings.TrimSpace(line); lines[i] == "" {
			lines[i] = "\n"
		}
	}
	text := strings.TrimSpace(strings.Join(lines, " "))
	return strings.ReplaceAll(text, " \n ", "\n\n")
}
