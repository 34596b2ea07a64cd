package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/switchyard-llm/switchyard/libs/engine/sim"
	"github.com/switchyard-llm/switchyard/libs/tokenizer"
)

// completion asks a server to complete a prompt and answers the text and the usage.
func completion(t *testing.T, data, prompt string, max int) (text string, in, out int) {
	t.Helper()
	e, err := readEndpoints(data)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(map[string]any{"model": "llama-3.1-70b-sim", "prompt": prompt, "max_tokens": max})
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Post(e.URL+"/v1/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Choices []struct{ Text string }
		Usage   struct {
			Prompt     int `json:"prompt_tokens"`
			Completion int `json:"completion_tokens"`
		}
	}
	if err := json.Unmarshal(answer, &got); err != nil || len(got.Choices) != 1 {
		t.Fatalf("%v: %s", err, answer)
	}
	return got.Choices[0].Text, got.Usage.Prompt, got.Usage.Completion
}

// Prompts are computed on groups of another TP, and their blocks moved; a wrong one would show.
func TestServeSimulatesWithoutAModelFile(t *testing.T) {
	data, profile := t.TempDir(), filepath.Join(t.TempDir(), "profile.json")
	text := `{"prefill": {"tokens": [1000], "ms": [20]}, "decode": {"sequences": [1], "context_tokens": [1000], "ms": [[5]]}}`
	if err := os.WriteFile(profile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	serve(t, "--engine", "sim", "--data", data, "--decode", "2", "--prefill", "1", "--dp", "2", "--tp", "2", "--prefill-tp", "4", "--split", "always",
		"--model-shape", "llama-3.1-70b", "--gpu", "h200", "--numerics", "fp8", "--timing", "profile", "--profile", profile, "--speedup", "4",
		"--blocks", "256", "--block-tokens", "16", "--poison")

	tok := tokenizer.Bytes()
	for i := range 8 {
		prompt := strings.Repeat("All work and no play. ", 1+7*i) + fmt.Sprint(i/2)
		tokens := tok.Encode(nil, prompt, tokenizer.NoSpecial)
		want := tok.Decode(sim.Answer(tokens, 24), tokenizer.NoSpecial)
		got, in, out := completion(t, data, prompt, 24)
		if got != want || in != len(tokens) || out != 24 {
			t.Errorf("%d and %d tokens, %q; want %d and 24, %q", in, out, got, len(tokens), want)
		}
	}
	if code, out, errors := run(t, "chat", "--data", data, "--max-tokens", "5", "Hello"); code != 0 || len(strings.TrimSuffix(out, "\n")) != 5 {
		t.Errorf("chat: %d %q %s", code, out, errors)
	}
	code, out, errors := run(t, "status", "--data", data)
	for _, want := range []string{"decode-0.dp0", "decode-0.dp1", "decode-1.dp1", "prefill-0.dp1", "by policy"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("status lacks %q: %d\n%s%s", want, code, out, errors)
		}
	}
	if _, lines, _ := run(t, "status", "--data", data, "--json"); !strings.Contains(strings.ReplaceAll(lines, " ", ""), `"dpRank":1,"dpGroup":"decode-1"`) {
		t.Errorf("no instance is rank 1 of the group decode-1:\n%s", lines)
	}
	if strings.Contains(out, "fell back") {
		t.Errorf("a prompt was not handed off:\n%s", out)
	}
}

// What the pool gave up is with the host, and the router is told so.
func TestTheRouterKnowsWhatTheHostHolds(t *testing.T) {
	data := t.TempDir()
	serve(t, "--engine", "sim", "--data", data, "--prefill", "0", "--speedup", "inf", "--blocks", "80", "--block-tokens", "16", "--host-blocks", "500")
	texts := []string{strings.Repeat("one ", 200), strings.Repeat("two ", 200), strings.Repeat("six ", 200)}
	for _, text := range texts {
		if code, _, errors := run(t, "chat", "--data", data, "--max-tokens", "2", text); code != 0 {
			t.Fatal(errors)
		}
	}
	var out string
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); { // events come when they come
		_, out, _ = run(t, "route", "--data", data, texts[0])
		if lines := strings.Split(out, "\n"); len(lines) > 2 {
			// The last columns are what device holds, what is pending, host and disk.
			if columns := strings.Fields(lines[2]); len(columns) > 4 && columns[len(columns)-4] == "0" && columns[len(columns)-2] == "51" {
				return
			}
		}
	}
	t.Errorf("the first prompt's 51 full blocks are not with the host:\n%s", out)
}

func TestServeSaysWhatCannotBeSimulated(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken.json")
	if err := os.WriteFile(broken, []byte(`{"prefill": {}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		`--engine is "cpu", want sim with`:                       {"--engine", "cpu", "--gpu", "h100"},
		`--model-shape is "gpt-9", want one of llama-3.1-8b`:     {"--model-shape", "gpt-9"},
		`--gpu is "abacus", want one of`:                         {"--gpu", "abacus"},
		`--numerics is "int3", want one of bf16, fp8`:            {"--numerics", "int3"},
		"--tp is 65, want 1 to 64":                               {"--tp", "65"},
		"--prefill-tp is -1, want 1 to 64":                       {"--prefill-tp=-1"},
		"--dp is 65, want 1 to 64":                               {"--dp", "65"},
		`--timing is "moon", want one of mocker`:                 {"--timing", "moon"},
		"--profile is empty, want a JSON file":                   {"--timing", "profile"},
		"want it empty or timing profile":                        {"--profile", broken},
		"prefill.tokens has 0 points":                            {"--timing", "profile", "--profile", broken},
		`--speedup is "0", want a number above 0, or inf`:        {"--speedup", "0"},
		`--link is "fast", want a number above 0, or inf`:        {"--link", "fast"},
		"--blocks is -1, want at least 1":                        {"--blocks=-1"},
		"--blocks is 9223372036854775807, want at most 8388608":  {"--blocks", "9223372036854775807"},
		"--block-tokens is 17, want 16 to 128, a multiple of 16": {"--block-tokens", "17"},
		"--block-tokens is -3, want 16 to 128":                   {"--block-tokens=-3"},
		"--host-blocks is -1, want 0":                            {"--host-blocks=-1"},
		"--disk-blocks is -1, want 0":                            {"--disk-blocks=-1"},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			args = append([]string{"serve", "--engine", "sim", "--http", "127.0.0.1:0", "--data", t.TempDir()}, args...)
			if code, _, errors := run(t, args...); code == 0 || !strings.Contains(errors, want) || strings.Count(strings.TrimSpace(errors), "\n") > 0 {
				t.Errorf("%d: %s", code, errors)
			}
		})
	}
}
