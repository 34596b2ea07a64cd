package frontend_test

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"

	frontendv1 "github.com/switchyard-llm/switchyard/proto/switchyard/frontend/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
	"github.com/switchyard-llm/switchyard/services/frontend"
	"github.com/switchyard-llm/switchyard/services/frontend/openai"
)

func TestTheOpenAPIDocumentHasThePathsThatAreServed(t *testing.T) {
	want := map[string][]string{}
	for _, probe := range []string{"/health", "/ready", "/version", "/metrics", "/openapi.json"} {
		want[probe] = []string{"get"}
	}
	pattern := regexp.MustCompile(`=[^}]*`)
	methods := frontendv1.File_switchyard_frontend_v1_frontend_proto.Services().ByName("Frontend").Methods()
	for i := range methods.Len() {
		rule := proto.GetExtension(methods.Get(i).Options(), annotations.E_Http).(*annotations.HttpRule)
		verb, path := "get", rule.GetGet()
		if path == "" {
			verb, path = "post", rule.GetPost()
		}
		path = pattern.ReplaceAllString(path, "")
		want[path] = append(want[path], verb)
	}
	url := serve(t, &processor{}, func(_ *frontend.Config, d *frontend.Deps) { d.Metrics = http.NotFoundHandler() })
	got := map[string][]string{}
	for path, item := range documentOf(t, url)["paths"].(map[string]any) {
		got[path] = slices.Sorted(maps.Keys(item.(map[string]any)))
		resp, body := do(t, http.MethodDelete, url+path, "")
		if resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("DELETE %s: %d %s, want a path that is there", path, resp.StatusCode, body)
		}
	}
	if resp, body := do(t, http.MethodHead, url+"/openapi.json", ""); resp.StatusCode != http.StatusOK || body != "" {
		t.Errorf("HEAD: %d %q", resp.StatusCode, body)
	}
	for path := range want {
		if !slices.Equal(got[path], want[path]) {
			t.Errorf("%s has %v, want %v", path, got[path], want[path])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d paths, want %d: %v", len(got), len(want), slices.Sorted(maps.Keys(got)))
	}
}

// reading is a schema of requests and what reads them. One of two members may be needed that are both
// optional.
type reading struct {
	schema, one, other string
	parse              func([]byte, *openai.Ignored) error
}

var readings = []reading{
	{"ChatCompletionRequest", "", "", func(b []byte, i *openai.Ignored) error { _, err := openai.ParseChat(b, i); return err }},
	{"CompletionRequest", "", "", func(b []byte, i *openai.Ignored) error { _, err := openai.ParseCompletion(b, i); return err }},
	{"TokenizeRequest", "prompt", "messages", func(b []byte, i *openai.Ignored) error { _, err := openai.ParseTokenize(b, i); return err }},
	{"DetokenizeRequest", "", "", func(b []byte, i *openai.Ignored) error { _, err := openai.ParseDetokenize(b, i); return err }},
}

// What the document admits is read, and what it says is out of bounds is refused for that.
func TestTheParametersOfTheDocumentAreThoseThatAreRead(t *testing.T) {
	s := samples{documentOf(t, serve(t, &processor{}, nil))}
	for _, r := range readings {
		schema := s.at("#/components/schemas/" + r.schema)
		for name := range schema["properties"].(map[string]any) {
			r.check(t, s, schema, name)
		}
	}
}

// check tries the values of a parameter. Unknown ones are refused, as nothing takes their names.
func (r reading) check(t *testing.T, s samples, schema map[string]any, name string) {
	t.Helper()
	minimal := map[string]any{}
	for _, needed := range append(textsOf(schema["required"]), r.one) {
		if needed != "" && (needed != r.one || name != r.other) {
			minimal[needed] = s.inside(propertyOf(schema, needed))[0]
		}
	}
	for _, value := range s.inside(propertyOf(schema, name)) {
		body := with(minimal, name, value)
		alone := value == nil && (name == r.one || name == r.other)
		if err := r.parse(body, nil); err != nil && !alone && !combined(err) {
			t.Errorf("%s refuses %s: %v", r.schema, body, err)
		}
	}
	for _, value := range s.outside(propertyOf(schema, name)) {
		body := with(minimal, name, value)
		if err := r.parse(body, nil); err == nil || combined(err) {
			t.Errorf("%s takes %s, which the document does not: %v", r.schema, body, err)
		}
	}
}

// combined tells whether a parameter was only refused because another one is there or not.
func combined(err error) bool {
	e := (*openai.Error)(nil)
	return errors.As(err, &e) && e.Code == "invalid_parameter_combination"
}

// with is an object with one more member.
func with(object map[string]any, name string, value any) []byte {
	object = maps.Clone(object)
	object[name] = value
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return text
}

func TestAnswersAreAsTheDocumentSays(t *testing.T) {
	p := &processor{handler: telling}
	url := serve(t, p, nil)
	v := newValidator(t, documentOf(t, url))
	for _, asked := range []string{"", `,"n":2`, `,"return_token_ids":true`, `,"logprobs":true,"top_logprobs":1,"n":2,"return_token_ids":true`} {
		for _, stream := range []string{"", `,"stream":true`, `,"stream":true,"stream_options":{"include_usage":true}`} {
			resp, body := post(t, url+"/v1/chat/completions", chatBody("x", asked+stream))
			v.answer(resp, "ChatCompletion", "ChatCompletionEvent", body)
			asked := strings.NewReplacer(`"logprobs":true,"top_logprobs":1`, `"logprobs":1`).Replace(asked)
			resp, body = post(t, url+"/v1/completions", `{"model":"`+model+`","prompt":["x","y"]`+asked+stream+`}`)
			v.answer(resp, "Completion", "CompletionEvent", body)
		}
	}
	resp, body := post(t, url+"/v1/completions", `{"model":"`+model+`","prompt":"x","logprobs":0}`)
	v.answer(resp, "Completion", "", body)
	for _, c := range []struct{ path, body, schema string }{
		{"/tokenize", `{"model":"` + model + `","prompt":"x"}`, "TokenizeResponse"},
		{"/tokenize", `{"model":"` + model + `","prompt":"x","return_token_strs":true}`, "TokenizeResponse"},
		{"/detokenize", `{"model":"` + model + `","tokens":[65]}`, "DetokenizeResponse"},
	} {
		resp, body := post(t, url+c.path, c.body)
		v.answer(resp, c.schema, "", body)
	}
	for path, schema := range map[string]string{"/v1/models": "ModelList", "/v1/models/" + model: "Model", "/version": "Version"} {
		resp, body := do(t, http.MethodGet, url+path, "")
		v.answer(resp, schema, "", body)
	}
	_, body = do(t, http.MethodGet, url+"/health", "")
	v.valid("State", body)
	_, body = post(t, url+"/v1/completions", `{"model":"`+model+`","prompt":"x","n":0}`)
	v.valid("Error", body)
	_, body = post(t, url+"/nothing", `{}`)
	v.valid("Error", body)
}

// telling answers with all that can be told of an answer.
func telling(in *generationv1.Request, out sender) error {
	likely := &generationv1.TokenLogProb{Id: 1, Text: []byte("x"), Logprob: -0.5}
	for choice := range max(in.GetChoices(), 1) {
		first := &generationv1.Chunk{Choice: choice, Text: "x", TokenIds: []uint32{1}}
		if in.GetReturnTokenIds() {
			first.PromptTokenIds = []uint32{7, 8}
		}
		if in.Logprobs != nil {
			first.Logprobs = []*generationv1.TokenLogProb{{Id: 1, Text: []byte("x"), Logprob: -0.5, Top: []*generationv1.TokenLogProb{likely}}}
		}
		last := &generationv1.Chunk{
			Choice: choice, FinishReason: generationv1.FinishReason_FINISH_REASON_STOP, TokenIds: []uint32{2},
			Usage: &generationv1.Usage{PromptTokens: 2, CompletionTokens: 2},
		}
		if choice > 0 {
			last.FinishReason = generationv1.FinishReason_FINISH_REASON_LENGTH
		}
		for _, c := range []*generationv1.Chunk{first, last} {
			if err := out.Send(&processorv1.GenerateResponse{Chunks: []*generationv1.Chunk{c}}); err != nil {
				return err
			}
		}
	}
	return nil
}

// documentOf gets the document as a client does.
func documentOf(t testing.TB, url string) map[string]any {
	t.Helper()
	resp, body := do(t, http.MethodGet, url+"/openapi.json", "")
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	var doc map[string]any
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}
