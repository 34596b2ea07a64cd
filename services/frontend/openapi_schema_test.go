package frontend_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// validator checks answers against the schemas of the document, and that they have no other members.
type validator struct {
	t        *testing.T
	compiler *jsonschema.Compiler
}

func newValidator(t *testing.T, doc map[string]any) *validator {
	for _, schema := range doc["components"].(map[string]any)["schemas"].(map[string]any) {
		if schema := schema.(map[string]any); schema["properties"] != nil {
			schema["additionalProperties"] = false
		}
	}
	v := &validator{t, jsonschema.NewCompiler()}
	if err := v.compiler.AddResource("openapi.json", doc); err != nil {
		t.Fatal(err)
	}
	return v
}

// answer checks the body of an answer, or the data of each of its events.
func (v *validator) answer(resp *http.Response, schema, event, body string) {
	v.t.Helper()
	if resp.StatusCode != http.StatusOK {
		v.t.Errorf("%d %s", resp.StatusCode, body)
	}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		v.valid(schema, body)
		return
	}
	data, ended := strings.CutSuffix(body, "data: [DONE]\n\n")
	if !ended {
		v.t.Errorf("no end: %s", body)
	}
	for one := range strings.SplitSeq(strings.TrimSuffix(data, "\n\n"), "\n\n") {
		v.valid(event, strings.TrimPrefix(one, "data: "))
	}
}

func (v *validator) valid(schema, body string) {
	v.t.Helper()
	compiled, err := v.compiler.Compile("openapi.json#/components/schemas/" + schema)
	if err != nil {
		v.t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	if err != nil {
		v.t.Fatalf("%s: %v", body, err)
	}
	if err := compiled.Validate(value); err != nil {
		v.t.Errorf("%s: %v", body, err)
	}
}
