package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/engine/cpu/cputest"
	"github.com/switchyard-llm/switchyard/libs/telemetry"
	"github.com/switchyard-llm/switchyard/libs/tokenizer/tokenizertest"
)

// run runs a command line and answers what it printed.
func run(t *testing.T, args ...string) (code int, out, errors string) {
	t.Helper()
	var o, e bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	code = execute(ctx, args, &o, &e)
	return code, o.String(), e.String()
}

// smallModel makes a model that says nothing sensible.
func smallModel(t *testing.T) string {
	t.Helper()
	return smallModelOf(t, 1)
}

// smallModelOf has other weights for another seed.
func smallModelOf(t *testing.T, seed uint64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "small.gguf")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := cputest.Write(file, cputest.Tiny(), seed, tokenizertest.Pairs()...); err != nil {
		t.Fatal(err)
	}
	return path
}

// serve runs a server until the test ends and waits for its ready line.
func serve(t *testing.T, args ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	reader, writer := io.Pipe()
	var errors bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- execute(ctx, append([]string{"serve", "--http", "127.0.0.1:0"}, args...), writer, &errors)
		writer.Close()
	}()
	line := make([]byte, 200)
	n, err := reader.Read(line)
	if err != nil || !strings.HasPrefix(string(line[:n]), "ready: http://127.0.0.1:") {
		t.Fatalf("%q, %v: %s", line[:n], err, errors.String())
	}
	t.Cleanup(func() {
		cancel()
		if c := <-code; c != 0 {
			t.Errorf("serve ended with %d: %s", c, errors.String())
		}
	})
}

func TestTheCommandsTalkToAServer(t *testing.T) {
	data, spans := t.TempDir(), filepath.Join(t.TempDir(), "spans")
	serve(t, "--model", smallModel(t), "--data", data, "--trace-file", spans, "--prefill", "2", "--split", "always", "--poison")

	code, first, errors := run(t, "chat", "--data", data, "--max-tokens", "12", "--seed", "3", "Hello there, how are you?")
	if code != 0 || len(first) < 2 {
		t.Fatalf("chat: %d %q %s", code, first, errors)
	}
	if _, again, _ := run(t, "chat", "--data", data, "--max-tokens", "12", "--seed", "3", "Hello there, how are you?"); again != first {
		t.Errorf("the same seed said %q, then %q", first, again)
	}
	code, out, errors := run(t, "status", "--data", data)
	for _, want := range []string{"decode-0", "prefill-0", "prefill-1", "decode-0 placed 2 by policy"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("status lacks %q: %d\n%s%s", want, code, out, errors)
		}
	}
	code, out, errors = run(t, "status", "--data", data, "--json")
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		if code != 0 || !json.Valid([]byte(line)) {
			t.Errorf("status --json: %d %q %s", code, line, errors)
		}
	}
	if code, out, errors = run(t, "policy", "--data", data); code != 0 || !strings.Contains(out, "always, threshold_tokens 16, max_queue 16") {
		t.Errorf("policy: %d %q %s", code, out, errors)
	}
	if code, out, errors = run(t, "policy", "threshold", "--threshold-tokens", "64", "--data", data); code != 0 || !strings.Contains(out, "threshold, threshold_tokens 64") {
		t.Errorf("policy threshold: %d %q %s", code, out, errors)
	}
	if code, out, errors = run(t, "policy", "cost", "--itl-target", "50ms", "--explore-every", "8", "--data", data); code != 0 || !strings.Contains(out, "cost, threshold_tokens 64, max_queue 16, itl_target 50ms, explore_every 8") {
		t.Errorf("policy cost: %d %q %s", code, out, errors)
	}
	if code, _, errors = run(t, "policy", "sometimes", "--data", data); code != 1 || !strings.Contains(errors, `policy is "sometimes"`) {
		t.Errorf("policy sometimes: %d %s", code, errors)
	}
	waitForTrace(t, spans)
}

// waitForTrace waits until the spans of a whole request are written, and checks its steps.
func waitForTrace(t *testing.T, spans string) {
	t.Helper()
	var out string
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		_, out, _ = run(t, "trace", spans)
		if complete(out) {
			return
		}
	}
	t.Errorf("the trace lacks a step:\n%s", out)
}

func complete(trace string) bool {
	for _, step := range []string{"S2 ", "S3 ", "S4 ", "S5 ", "S6 ", "S7 ", "S8 ", "S9 ", "S10 ", "S11 ", "S12 ", "S13 "} {
		if !strings.Contains(trace, "\n"+step) {
			return false
		}
	}
	return true
}

func TestServeSaysWhatIsWrongInOneLine(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() }) // after the parallel subtests
	model := smallModel(t)
	broken := filepath.Join(t.TempDir(), "broken.gguf")
	text, err := os.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(broken, text[:len(text)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"a taken port":       {[]string{"--model", model, "--http", taken.Addr().String()}, "address already in use"},
		"a missing file":     {[]string{"--model", "/nowhere/x.gguf"}, "/nowhere/x.gguf"},
		"a truncated file":   {[]string{"--model", broken}, "broken.gguf"},
		"no decode worker":   {[]string{"--model", model, "--decode", "0"}, "--decode is 0"},
		"an unknown policy":  {[]string{"--model", model, "--split", "sometimes"}, "--split"},
		"an etcd not there":  {[]string{"--model", model, "--etcd", "127.0.0.1:1"}, "127.0.0.1:1"},
		"a NATS not there":   {[]string{"--model", model, "--nats", "nats://127.0.0.1:1"}, "127.0.0.1:1"},
		"a folder in a file": {[]string{"--model", model, "--data", model}, "--data"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			args := append([]string{"serve", "--http", "127.0.0.1:0", "--data", t.TempDir()}, tc.args...)
			code, _, errors := run(t, args...)
			if code == 0 || !strings.Contains(errors, tc.want) || strings.Count(strings.TrimSpace(errors), "\n") > 0 {
				t.Errorf("%d after %v: %s", code, time.Since(begin), errors)
			}
		})
	}
}

func TestASecondServerCannotTakeTheFolder(t *testing.T) {
	data, model := t.TempDir(), smallModel(t)
	serve(t, "--model", model, "--data", data)
	if code, _, errors := run(t, "serve", "--http", "127.0.0.1:0", "--model", model, "--data", data); code != 1 || !strings.Contains(errors, "another server uses it") {
		t.Errorf("%d %s", code, errors)
	}
}

func TestCommandsWithoutAServer(t *testing.T) {
	empty := t.TempDir()
	for _, args := range [][]string{{"status"}, {"policy"}, {"chat", "hi"}} {
		if code, _, errors := run(t, append(args, "--data", empty)...); code != 1 || !strings.Contains(errors, "no server runs with data folder") {
			t.Errorf("%v: %d %s", args, code, errors)
		}
	}
	if code, _, _ := run(t, "dance"); code != 2 {
		t.Errorf("an unknown command ended with %d, want 2", code)
	}
}

func TestServeKeepsEverythingInItsDataFolder(t *testing.T) {
	data, temp, model := t.TempDir(), t.TempDir(), smallModel(t)
	for _, left := range []string{"etcd/etcd/member/wal/broken", "nats/jetstream/broken"} { // by a server that was killed
		if err := os.MkdirAll(filepath.Join(data, left), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("serve", func(t *testing.T) {
		t.Setenv("TMPDIR", temp)
		serve(t, "--model", model, "--data", data)
		if names := namesIn(t, temp); len(names) > 0 {
			t.Errorf("%q in the temporary folder", names)
		}
	})
	if names := namesIn(t, data); !slices.Equal(names, []string{"lock"}) {
		t.Errorf("%q in the data folder after the end, want only the lock", names)
	}
}

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestCommandsNameAServerThatDied(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	if err := (endpoints{PID: 4711, URL: "http://127.0.0.1:1", Etcd: []string{"127.0.0.1:1"}}).write(data); err != nil {
		t.Fatal(err)
	}
	code, _, errors := run(t, "status", "--data", data)
	if code != 1 || !strings.Contains(errors, data) || !strings.Contains(errors, "process 4711") || strings.Count(errors, "\n") != 1 {
		t.Errorf("%d %q", code, errors)
	}
}

func TestTokenizeAndRender(t *testing.T) {
	model := smallModel(t)
	code, out, errors := run(t, "tokenize", "--model", model, "--special", "a<|im_end|>")
	if code != 0 || !strings.Contains(out, "special") || !strings.HasSuffix(out, "2 tokens\n") {
		t.Errorf("tokenize: %d %q %s", code, out, errors)
	}
	if _, out, _ = run(t, "tokenize", "--model", model, "a<|im_end|>"); !strings.HasSuffix(out, "11 tokens\n") {
		t.Errorf("tokenize of plain text: %q", out)
	}
	if code, out, errors = run(t, "render", "--model", model, "hi"); code != 0 || out != "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n" {
		t.Errorf("render: %d %q %s", code, out, errors)
	}
}

func TestATraceIsATreeAndKeepsStrayedSpans(t *testing.T) {
	var out bytes.Buffer
	err := printTrace(&out, "t", []telemetry.Span{
		{SpanID: "b", ParentID: "a", Name: "decodeworker.handoff", Instance: "decode-0", Start: 2e6, End: 5e6, Attributes: map[string]any{"bytes": float64(1 << 20), "rpc.system": "grpc"}},
		{SpanID: "a", Name: "frontend.request", Instance: "frontend-0", Start: 1e6, End: 9e6},
		{SpanID: "c", ParentID: "lost", Name: "x", Instance: "y", Start: 3e6, End: 4e6, Error: "broken"},
	})
	want := "trace t, 3 spans\n" +
		"STEP  START    DURATION  SPAN                    PROCESS     DETAIL\n" +
		"S2    0.00 ms  8.00 ms   frontend.request        frontend-0  \n" +
		"S6    1.00 ms  3.00 ms     decodeworker.handoff  decode-0    bytes=1048576\n" +
		"      2.00 ms  1.00 ms   x                       y           error=broken\n"
	if err != nil || out.String() != want {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestAnAnswerThatBreaksOffIsAnError(t *testing.T) {
	for text, want := range map[string]string{
		"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n": "broke off",
		"data: {\"error\":{\"message\":\"no more\"}}\n\n":           "no more",
		"data: nonsense\n\n": "read an event",
		": keepalive\n\ndata: {\"choices\":[]}\n\ndata: [DONE]\n\nrubbish\n": "",
	} {
		err := printStream(strings.NewReader(text), io.Discard)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
