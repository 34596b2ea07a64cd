package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"github.com/switchyard-llm/switchyard/tools/bench"
	benchserve "github.com/switchyard-llm/switchyard/tools/bench/serve"
)

// openAI is a server that answers two tokens.
func openAI(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"data":[{"id":"small"}]}`)
			return
		}
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for range 2 {
			_, _ = io.WriteString(w, `data: {"choices":[{"delta":{"content":"a"}}]}`+"\n\n")
		}
		fmt.Fprintf(w, `data: {"usage":{"prompt_tokens":%d,"completion_tokens":2}}`+"\n\ndata: [DONE]\n\n", len(body))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestBenchServePrintsFigures(t *testing.T) {
	code, out, errors := run(t, "bench", "serve", "--url", openAI(t), "--concurrency", "3", "--requests", "30", "--warmup", "5", "--json")
	if code != 0 {
		t.Fatalf("code %d: %s", code, errors)
	}
	got := map[string]float64{}
	for line := range strings.Lines(out) {
		var f bench.Figure
		if err := json.Unmarshal([]byte(line), &f); err != nil || f.Bench != "serve" || f.Case != "concurrency 3" {
			t.Fatalf("%s: %v", line, err)
		}
		got[f.Name] = f.Value
	}
	for name, want := range map[string]float64{"requests": 30, "failed": 0, "output tokens": 60, "chunks": 90} {
		if got[name] != want {
			t.Errorf("%q is %v, want %v", name, got[name], want)
		}
	}
	for _, name := range []string{"TTFT, p50", "ITL, p99", "E2E, mean", "throughput"} {
		if !(got[name] > 0) {
			t.Errorf("%q is %v", name, got[name])
		}
	}
}

func TestBenchServeReplaysATrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace")
	const trace = `{"timestamp": 0, "input_length": 600, "output_length": 3, "hash_ids": [7, 9]}
{"timestamp": 20, "input_length": 512, "output_length": 1, "hash_ids": [7]}
`
	if err := os.WriteFile(path, []byte(trace), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errors := run(t, "bench", "serve", "--url", openAI(t), "--trace", path, "--rate-scale", "2")
	if code != 0 || !strings.Contains(out, "small, trace at 2: 2 requests and 0 failed") || !strings.Contains(out, "late") {
		t.Errorf("code %d: %s%s", code, out, errors)
	}
}

func TestBenchServeSaysWhatIsWrong(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	refusing := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(refusing.Close)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--url", "here"}, `url is "here"`},
		{[]string{"--url", refusing.URL}, "list the models: http 404: 404 page not found"},
		{[]string{"--url", refusing.URL, "--model", "m", "--requests", "3"}, "all of 3 requests failed: http 404"},
		{[]string{"--endpoint", "embeddings"}, "--endpoint"},
		{[]string{"--header", "x"}, `header is "x", want NAME:VALUE`},
		{[]string{"--rate", "NaN"}, "rate is NaN"},
		{[]string{"--rate", "2", "--concurrency", "2"}, "rate and concurrency"},
		{[]string{"--arrivals", "bursts"}, "--arrivals"},
		{[]string{"--concurrency=-1"}, "concurrency is -1"},
		{[]string{"--requests=-1"}, "requests is -1"},
		{[]string{"--duration=-1s"}, "duration is -1s"},
		{[]string{"--warmup=-1"}, "warmup is -1"},
		{[]string{"--trace", none}, "no such file"},
		{[]string{"--rate-scale", "2"}, "rate-scale is given"},
		{[]string{"--isl", "many"}, `isl is "many"`},
		{[]string{"--osl", "zipf:1:2"}, `osl is of shape "zipf"`},
		{[]string{"--isl-unit", "bytes"}, "--isl-unit"},
		{[]string{"--text", "latin"}, "--text"},
		{[]string{"--temperature", "3"}, "temperature is 3"},
		{[]string{"--prefix-groups", "0"}, "prefix-groups is 0"},
		{[]string{"--no-stream", "--slo-ttft", "1s"}, "want stream"},
		{[]string{"--slo-itl=-1s"}, "slo-itl is -1s"},
		{[]string{"--pid", "0"}, "pid is 0"},
		{[]string{"--pid", "536870912"}, "pid is"},
	} {
		code, _, errors := run(t, append([]string{"bench", "serve"}, c.args...)...)
		if code == 0 || !strings.Contains(errors, c.want) {
			t.Errorf("%v: code %d, %q, want %q", c.args, code, errors, c.want)
		}
	}
}

func TestBenchServeDefaultsAreThoseOfThePackage(t *testing.T) {
	var c commands
	parser, err := kong.New(&c, kong.Vars{"data": "", "model": "", "tokenizers": ""})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse([]string{"bench", "serve"}); err != nil {
		t.Fatal(err)
	}
	got, err := c.Bench.Serve.config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Vocabulary) < 40_000 {
		t.Errorf("%d words", len(got.Vocabulary))
	}
	got.Vocabulary, got.Header, got.PIDs = nil, nil, nil
	if diff := cmp.Diff(benchserve.DefaultConfig(), got, cmp.AllowUnexported(benchserve.Length{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
