package main

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestServeSeveralModels(t *testing.T) {
	data := t.TempDir()
	serve(t, "--engine", "sim", "--speedup", "inf", "--data", data, "--decode", "2", "--prefill", "1", "--split", "always",
		"--model-shape", "llama-3.1-8b", "--model-shape", "llama-3.1-70b", "--model-shape", "llama-3.1-8b",
		"--served-name", "", "--served-name", "org/big one, 70b", "--served-name", "ü")
	for _, name := range []string{"llama-3.1-8b-sim", "org/big one, 70b", "ü"} {
		if code, out, errors := run(t, "chat", "--data", data, "--max-tokens", "5", "--model", name, "Hello there, how are you? Fine."); code != 0 || len(out) < 2 {
			t.Errorf("chat with %s: %d %q %s", name, code, out, errors)
		}
		if code, out, errors := run(t, "route", "--data", data, "--model", name, "Hello"); code != 0 || strings.Count(out, "decode-") != 2 {
			t.Errorf("route of %s, want its two workers: %d\n%s%s", name, code, out, errors)
		}
		if code, out, errors := run(t, "policy", "--data", data, "--model", name); code != 0 || !strings.Contains(out, name+": always") {
			t.Errorf("policy of %s: %d %q %s", name, code, out, errors)
		}
	}
	if code, _, errors := run(t, "routing", "--data", data); code != 1 || !strings.Contains(errors, `want one of ["llama-3.1-8b-sim" "org/big one, 70b" "ü"]`) {
		t.Errorf("routing of no model: %d %s", code, errors)
	}
	if code, _, errors := run(t, "chat", "--data", data, "--model", "nobody's", "hi"); code != 1 || !strings.Contains(errors, "404") {
		t.Errorf("chat with an unknown model: %d %s", code, errors)
	}
	_, out, _ := run(t, "status", "--data", data)
	rows := map[string]string{ // ids and what stands behind them
		"decode-1": "llama-3.1-8b-sim", "decode-org-big-one--70b-1": "org/big one, 70b", "decode-model-0": "ü",
		"prefill-0": "llama-3.1-8b-sim", "prefill-org-big-one--70b-0": "org/big one, 70b",
		"processor-0": "llama-3.1-8b-sim", "processor-model-0": "ü",
	}
	for id, name := range rows {
		if !hasRow(out, id, name) {
			t.Errorf("status does not show %s with %s:\n%s", id, name, out)
		}
	}
	// No prompt was computed by another model's prefill worker.
	for id, prefill := range map[string]string{"decode-": "prefill-0", "decode-org-big-one--70b-": "prefill-org-big-one--70b-0"} {
		if !strings.Contains(out, " prompts computed by "+prefill+": ") {
			t.Errorf("no prompt of %s was computed by %s:\n%s", id, prefill, out)
		}
	}
}

// hasRow says whether a line begins with an id, then a name.
func hasRow(out, id, name string) bool {
	for line := range strings.Lines(out) {
		if rest, ok := strings.CutPrefix(line, id+" "); ok && strings.HasPrefix(strings.TrimLeft(rest, " "), name+" ") {
			return true
		}
	}
	return false
}

// Two models of the CPU engine, each with its own weights and processor.
func TestServeTwoModelFiles(t *testing.T) {
	data, one, other := t.TempDir(), smallModel(t), smallModelOf(t, 2)
	serve(t, "--model", one, "--model", other, "--served-name", "one", "--served-name", "other", "--data", data)
	said := map[string]bool{}
	for _, name := range []string{"one", "other"} {
		code, out, errors := run(t, "chat", "--data", data, "--model", name, "--max-tokens", "12", "--temperature", "0", "Hello there, how are you?")
		if code != 0 {
			t.Fatalf("%s: %d %s", name, code, errors)
		}
		said[out] = true
	}
	if len(said) != 2 {
		t.Errorf("models of other weights said the same: %v", said)
	}
	e, err := readEndpoints(data)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Timeout: 10 * time.Second}).Get(e.URL + "/v1/models/other")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("/v1/models/other answers %s", response.Status)
	}
}

func TestServeRefusesModelsThatCannotBeToldApart(t *testing.T) {
	model := smallModel(t)
	for want, args := range map[string][]string{
		`two models are served as "small"`:                          {"--model", model, "--model", model},
		`two models are served as "x"`:                              {"--model", model, "--model", model, "--served-name", "x", "--served-name", "x"},
		`two models are served as "llama-3.1-8b-sim"`:               {"--engine", "sim", "--model-shape", "llama-3.1-8b", "--model-shape", "llama-3.1-8b"},
		"--served-name is given 2 times, want at most one for each": {"--model", model, "--served-name", "x", "--served-name", "y"},
		`--model-shape is "gpt-9", want one of`:                     {"--engine", "sim", "--model-shape", "llama-3.1-8b", "--model-shape", "gpt-9"},
		"--engine is \"cpu\", want sim with":                        {"--model", model, "--model-shape", "llama-3.1-8b"},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"serve", "--http", "127.0.0.1:0", "--data", t.TempDir()}, args...)
			code, _, errors := run(t, args...)
			if code == 0 || !strings.Contains(errors, want) || strings.Count(strings.TrimSpace(errors), "\n") > 0 {
				t.Errorf("%d: %s", code, errors)
			}
		})
	}
}

func TestIdsOfModelsDiffer(t *testing.T) {
	s := &server{models: []*served{{}}}
	seen := map[string]bool{}
	for _, name := range []string{"a/b", "a b", "a-b", "日本", "", strings.Repeat("x", 100), "../..", "0"} {
		m := &served{tag: s.newTag(name)}
		s.models = append(s.models, m)
		id := m.id("decode", 0)
		if seen[id] || strings.ContainsAny(id, "/ ") || len(id) > 60 {
			t.Errorf("%q has the id %q", name, id)
		}
		seen[id] = true
	}
}

func TestServersThatShareAnEtcdHaveNamesOfTheirOwn(t *testing.T) {
	alone, shared := &server{cmd: &serveCmd{Decode: 1}}, &server{cmd: &serveCmd{Decode: 1, Etcd: []string{"127.0.0.1:2379"}}}
	if got := alone.id("decode-0"); got != "decode-0" {
		t.Errorf("alone: %q", got)
	}
	if got := shared.id("decode-0"); got == "decode-0" || !strings.HasPrefix(got, "decode-0-") {
		t.Errorf("shared: %q", got)
	}
}
