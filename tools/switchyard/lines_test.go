package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runWith runs a command line with standard input.
func runWith(t *testing.T, input string, args ...string) (code int, out, errors string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(path, []byte(input), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	stdin := os.Stdin
	os.Stdin = f
	defer func() { os.Stdin = stdin }()
	return run(t, args...)
}

func TestTokenizeAnswersLineByLine(t *testing.T) {
	model := smallModel(t)
	t.Setenv("SWITCHYARD_CACHE", t.TempDir())
	const input = `{"text":"a<|im_end|>"}` + "\n\n" + `{"ids":[100,2]}` + "\n" + `{"text":""}` + "\n" + `{"text":1}` + "\n" + `{"ids":[999]}` + "\n" + `{"txt":"x"}` + "\n" + `{}` + "\n" + `{"ids":[null]}` + "\n" + `{"text":"a"} b` + "\n" + `{"Text":"a"}`
	code, out, errors := runWith(t, input, "tokenize", "--model", model, "--special")
	want := `{"ids":[100,2]}` + "\n" + `{"text":"a<|im_end|>"}` + "\n" + `{"ids":[]}` + "\n"
	if code != 1 || !strings.HasPrefix(out, want) || strings.Count(out, `{"error":`) != 7 || !strings.Contains(errors, "answered with an error") {
		t.Errorf("code %d, %s%s", code, out, errors)
	}
	for _, part := range []string{`ids[0] is 999, want less than the vocabulary's 259`, `\"txt\"`, `ids[0] is null, want a number`} {
		if !strings.Contains(out, part) {
			t.Errorf("the answers lack %q:\n%s", part, out)
		}
	}
	if _, out, _ = runWith(t, `{"text":"é!"}`, "tokenize", "--model", model, "--offsets"); out != `{"ids":[198,172,36],"offsets":[[0,1],[1,2],[2,3]]}`+"\n" {
		t.Errorf("offsets: %s", out)
	}
}

func TestRenderAnswersLineByLine(t *testing.T) {
	template := filepath.Join(t.TempDir(), "t.jinja")
	const source = `{% if x is defined %}{{ x }}{% endif %}{% for m in messages %}{% if m.role == 'bad' %}{{ raise_exception('no ' + m.role) }}{% endif %}` +
		`[{{ m.role }}]{{ m.content }}{% endfor %}{{ tools | tojson if tools }}{{ strftime_now('%Y') }}{% if add_generation_prompt %}>{% endif %}`
	if err := os.WriteFile(template, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	const input = `{"messages":[{"role":"user","content":"hi <&>"}],"x":1.0}` + "\n" + `{"messages":[],"add_generation_prompt":false,"tools":[{"b":1,"a":2}],"options":{"x":"y"}}` + "\n" +
		`{"messages":[{"role":"bad"}]}` + "\n" + `{"x":1}` + "\n" + `[1]` + "\n" + `{"messages":[3]}` + "\n"
	code, out, errors := runWith(t, input, "render", "--template", template, "--now", "1999-12-31")
	want := `{"text":"1.0[user]hi <&>1999>"}` + "\n" + `{"text":"y[{\"b\": 1, \"a\": 2}]1999"}` + "\n" + `{"error":"no bad"}` + "\n" +
		`{"error":"messages: missing, want a list"}` + "\n" + `{"error":"want an object with \"messages\""}` + "\n" + `{"error":"messages[0]: want an object"}` + "\n"
	if code != 1 || out != want {
		t.Errorf("code %d, %s\n got %s\nwant %s", code, errors, out, want)
	}
	if code, _, errors = run(t, "render", "--template", template, "--now", "noon", "hi"); code != 1 || !strings.Contains(errors, `--now is "noon"`) {
		t.Errorf("code %d, %s", code, errors)
	}
}

func TestAFolderIsAModelForText(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("SWITCHYARD_CACHE", t.TempDir())
	files := map[string]string{
		"tokenizer.json": `{"version":"1.0","added_tokens":[{"id":2,"content":"<s>","special":true,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false}],` +
			`"normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false},"post_processor":null,"decoder":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true},` +
			`"model":{"type":"BPE","vocab":{"a":0,"b":1,"<s>":2,"ab":3},"merges":["a b"]}}`,
		"tokenizer_config.json": `{"bos_token":{"content":"<s>"},"eos_token":null,"chat_template":[{"name":"default","template":"{{ bos_token }}{{ messages[0].content }}"}]}`,
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time, from the cache
		code, out, errors := runWith(t, `{"messages":[{"role":"user","content":"ab<s>"}]}`, "render", "--model", dir, "--ids")
		if code != 0 || out != `{"ids":[2,3],"text":"<s>ab<s>"}`+"\n" {
			t.Errorf("code %d, %s%s", code, out, errors)
		}
	}
	if code, out, errors := run(t, "tokenize", "--model", filepath.Join(dir, "tokenizer.json"), "ab"); code != 0 || !bytes.HasSuffix([]byte(out), []byte("1 tokens\n")) {
		t.Errorf("code %d, %s%s", code, out, errors)
	}
}
