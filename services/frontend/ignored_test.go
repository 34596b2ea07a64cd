package frontend_test

import (
	"io"
	"net/http"
	"testing"

	frontendv1 "github.com/switchyard-llm/switchyard/proto/switchyard/frontend/v1"
	"github.com/switchyard-llm/switchyard/services/frontend"
)

func TestUnknownParametersAreNamedInAHeader(t *testing.T) {
	p := &processor{}
	url := serve(t, p, nil)
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/v1/chat/completions", chatBody("x", ``), 200, ""},
		{"/v1/chat/completions", chatBody("x", `,"a":1,"b":[]`), 200, "a, b"},
		{"/v1/chat/completions", chatBody("x", `,"a":1,"stream":true`), 200, "a"},
		{"/v1/completions", `{"model":"acme/echo","prompt":"x","c":[]}`, 200, "c"},
		{"/v1/chat/completions", chatBody("x", `,"a":1,"n":0`), 400, "a"},
	} {
		resp, body := post(t, url+c.path, c.body)
		if got := resp.Header.Get("X-Switchyard-Ignored"); resp.StatusCode != c.status || got != c.want {
			t.Errorf("%s: %d, ignored %q, want %d and %q\n%s", c.body, resp.StatusCode, got, c.status, c.want, body)
		}
	}
}

func TestStrictRefusesUnknownParameters(t *testing.T) {
	url := serve(t, &processor{}, func(c *frontend.Config, _ *frontend.Deps) { c.Strict = true })
	for _, more := range []string{`,"what":1`, `,"what":1,"stream":true`} {
		resp, body := post(t, url+"/v1/chat/completions", chatBody("x", more))
		e := failureOf(t, body)
		if resp.StatusCode != http.StatusBadRequest || deref(e.Param) != "what" || deref(e.Code) != "unknown_parameter" || resp.Header.Get("X-Switchyard-Ignored") != "" {
			t.Errorf("%s: %d %v %s", more, resp.StatusCode, resp.Header, body)
		}
	}
}

// Callers over gRPC that send JSON find the names in the header metadata.
func TestGRPCCallersLearnWhatWasIgnored(t *testing.T) {
	client := start(t, &processor{})
	stream, err := client.ChatCompletions(t.Context(), &frontendv1.ChatCompletionsRequest{
		Request: &frontendv1.ChatCompletionsRequest_Json{Json: []byte(chatBody("x", `,"a":1`))},
	})
	if err != nil {
		t.Fatal(err)
	}
	header, err := stream.Header()
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = stream.Recv()
	}
	if err != io.EOF {
		t.Fatal(err)
	}
	if got := header.Get("x-switchyard-ignored"); len(got) != 1 || got[0] != "a" {
		t.Errorf("metadata %v", header)
	}
}
