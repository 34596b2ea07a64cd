package main

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoregistry"
)

// service is a file with one RPC that has these options, and two messages.
func service(t *testing.T, options string) *protoregistry.Files {
	t.Helper()
	files := &protoregistry.Files{}
	file := described(t, `
	message_type { name: "A" field { name: "id" number: 1 type: TYPE_STRING } }
	message_type { name: "B" }
	service { name: "S" method { name: "Do" input_type: ".switchyard.openai.v1.A" output_type: ".switchyard.openai.v1.B" options {`+options+`} } }`)
	if err := files.RegisterFile(file); err != nil {
		t.Fatal(err)
	}
	return files
}

func TestRPCsBecomeOperations(t *testing.T) {
	var doc document
	doc.Paths = map[string]path{}
	err := addPaths(&doc, service(t, `
		[google.api.http] { post: "/do/{id=**}:now" body: "*" }
		[switchyard.openai.v1.bodies] { request: "A" answer: "B" event: "B" }`))
	if err != nil {
		t.Fatal(err)
	}
	got := doc.Paths["/do/{id}:now"]["post"]
	if got == nil {
		t.Fatalf("paths: %v", doc.Paths)
	}
	if want := `[{"name":"id", "in":"path", "required":true, "schema":{"type":"string"}}, {"$ref":"#/components/parameters/RequestID"}, {"$ref":"#/components/parameters/Worker"}]`; textOf(t, got.Parameters) != want {
		t.Errorf("parameters: %s", textOf(t, got.Parameters))
	}
	if want := `{"application/json":{"schema":{"$ref":"#/components/schemas/A"}}}`; textOf(t, got.RequestBody.Content) != want {
		t.Errorf("request: %s", textOf(t, got.RequestBody.Content))
	}
	if want := `{"application/json":{"schema":{"$ref":"#/components/schemas/B"}}, "text/event-stream":{"schema":{"$ref":"#/components/schemas/B"}}}`; textOf(t, got.Responses["200"].Content) != want {
		t.Errorf("answer: %s", textOf(t, got.Responses["200"].Content))
	}
	if got.Responses["4XX"].Ref == "" || got.Responses["5XX"].Ref == "" || got.Responses["200"].Headers["X-Switchyard-Ignored"].Ref == "" {
		t.Errorf("responses: %s", textOf(t, got.Responses))
	}
}

func TestRPCsThatOnlyGRPCServesAreNoOperations(t *testing.T) {
	var doc document
	if err := addPaths(&doc, service(t, "")); err != nil || len(doc.Paths) > 0 {
		t.Errorf("%v, %v", doc.Paths, err)
	}
}

func TestRPCsThatAreHalfDescribedAreRefused(t *testing.T) {
	for _, options := range []string{
		`[google.api.http] { get: "/do" }`,
		`[switchyard.openai.v1.bodies] { answer: "B" }`,
		`[google.api.http] { get: "/do" } [switchyard.openai.v1.bodies] { request: "A" answer: "B" }`,
		`[google.api.http] { post: "/do" body: "*" } [switchyard.openai.v1.bodies] { answer: "B" }`,
		`[google.api.http] { get: "/do/{nothing}" } [switchyard.openai.v1.bodies] { answer: "B" }`,
		`[google.api.http] { delete: "/do" } [switchyard.openai.v1.bodies] { answer: "B" }`,
		`[google.api.http] { get: "/do" additional_bindings { get: "/also" } } [switchyard.openai.v1.bodies] { answer: "B" }`,
	} {
		doc := document{Paths: map[string]path{}}
		if err := addPaths(&doc, service(t, options)); err == nil || !strings.Contains(err.Error(), "switchyard.openai.v1.S.Do") {
			t.Errorf("%s: %v", options, err)
		}
	}
}

// The base leads to messages that the file does not have, and one of the file's leads nowhere.
func TestEverySchemaIsThereAndLedTo(t *testing.T) {
	if _, err := generate(service(t, "")); err == nil || !strings.Contains(err.Error(), "has no message") {
		t.Error(err)
	}
	doc := document{Components: components{Schemas: map[string]*schema{"A": {}, "B": {}}}}
	err := checkReferences(&doc, []byte(`"$ref": "#/components/schemas/B"`))
	if err == nil || !strings.Contains(err.Error(), "[A]") {
		t.Error(err)
	}
}
