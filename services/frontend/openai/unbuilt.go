package openai

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// unbuilt is a parameter that OpenAI or other servers have and we do not yet: null and the
// values that ask for nothing are accepted, all others refused.
type unbuilt struct {
	want     string   // the type, in the words of an error
	kinds    string   // the kinds of JSON token that can begin it
	defaults []string // as JSON; an array or an object can only be the empty one
}

// unbuiltShared holds what both endpoints know and do not serve.
func unbuiltShared(name string) (unbuilt, bool) {
	switch name {
	case "store":
		return unbuilt{"a boolean", "tf", []string{"false"}}, true
	case "service_tier":
		return unbuilt{"a string", `"`, []string{`"auto"`, `"default"`}}, true
	}
	return unbuiltExtra(name)
}

// unbuiltExtra holds what other servers know beyond OpenAI and would change an answer.
func unbuiltExtra(name string) (unbuilt, bool) {
	switch name {
	case "typical_p":
		return unbuilt{"a decimal", "0", []string{"0", "1"}}, true
	case "length_penalty", "tfs", "tfs_z", "repeat_penalty":
		return unbuilt{"a decimal", "0", []string{"1"}}, true
	case "top_a", "dry_multiplier", "xtc_probability":
		return unbuilt{"a decimal", "0", []string{"0"}}, true
	case "no_repeat_ngram_size", "mirostat":
		return unbuilt{"an integer", "0", []string{"0"}}, true
	case "num_beams":
		return unbuilt{"an integer", "0", []string{"1"}}, true
	case "use_beam_search", "return_tokens_as_token_ids", "early_stopping":
		return unbuilt{"a boolean", "tf", []string{"false"}}, true
	case "spaces_between_special_tokens":
		return unbuilt{"a boolean", "tf", []string{"true"}}, true
	case "enable_thinking": // chat_template_kwargs takes it
		return unbuilt{"a boolean", "tf", nil}, true
	case "bad_words", "allowed_token_ids", "logits_processors", "logprob_token_ids", "stop_sequences", "stop_words":
		return unbuilt{"an array", "[", []string{"[]"}}, true
	case "prompt_logprobs", "truncate_prompt_tokens", "n_predict", "max_new_tokens", "min_new_tokens", "max_length":
		return unbuilt{"an integer", "0", nil}, true
	case "guided_regex", "guided_grammar", "structural_tag", "regex", "ebnf", "grammar", "lora_path":
		return unbuilt{"a string", `"`, []string{`""`}}, true
	case "guided_json", "json_schema":
		return unbuilt{"a string or an object", `"{`, nil}, true
	case "guided_choice":
		return unbuilt{"an array", "[", nil}, true
	case "structured_outputs", "kv_transfer_params", "thinking", "reasoning", "response_schema", "nvext":
		return unbuilt{"an object", "{", nil}, true
	}
	return unbuilt{}, false
}

func unbuiltChat(name string) (unbuilt, bool) {
	switch name {
	case "tools", "functions", "documents":
		return unbuilt{"an array", "[", []string{"[]"}}, true
	case "tool_choice", "function_call":
		return unbuilt{"a string or an object", `"{`, []string{`"none"`, `"auto"`}}, true
	case "parallel_tool_calls":
		return unbuilt{"a boolean", "tf", []string{"true"}}, true
	case "audio", "prediction", "web_search_options", "moderation", "prompt_cache_options":
		return unbuilt{"an object", "{", nil}, true
	case "verbosity":
		return unbuilt{"a string", `"`, []string{`"medium"`}}, true
	case "prompt_cache_retention":
		return unbuilt{"a string", `"`, []string{`"in_memory"`}}, true
	case "add_special_tokens", "echo":
		return unbuilt{"a boolean", "tf", []string{"false"}}, true
	case "best_of":
		return unbuilt{"an integer", "0", []string{"1"}}, true
	case "chat_template":
		return unbuilt{"a string", `"`, nil}, true
	}
	return unbuiltShared(name)
}

func unbuiltCompletion(name string) (unbuilt, bool) {
	switch name {
	case "suffix":
		return unbuilt{"a string", `"`, []string{`""`}}, true
	case "add_special_tokens":
		return unbuilt{"a boolean", "tf", []string{"true"}}, true
	}
	return unbuiltShared(name)
}

// onlyDefault reads the value of a parameter that is not built.
func (r *reader) onlyDefault(u unbuilt) error {
	tok, err := r.token()
	if err != nil {
		return err
	}
	kind := tok.Kind()
	if kind == 'n' {
		return nil
	}
	if !strings.ContainsRune(u.kinds, rune(kind)) {
		return r.mistyped(u.want, tok)
	}
	given, param := literal(tok), r.param()
	if kind == '{' || kind == '[' {
		if given, err = r.emptyOf(kind); err != nil {
			return err
		}
	}
	if slices.Contains(u.defaults, given) {
		return nil
	}
	if len(u.defaults) == 0 {
		return bad("unsupported_parameter", param, "Unsupported parameter: '%s' is not supported yet. Leave it out or send null.", param)
	}
	return bad("unsupported_value", param, "Unsupported value: '%s' does not support %s yet. Only the default (%s) or null is supported.",
		param, clip(given), strings.Join(u.defaults, ", "))
}

// emptyOf tells an empty array or object from one that is not. Nothing else of it is read:
// a full one is refused.
func (r *reader) emptyOf(kind jsontext.Kind) (string, error) {
	given, full, end := "[]", "a non-empty array", jsontext.Kind(']')
	if kind == '{' {
		given, full, end = "{}", "a non-empty object", '}'
	}
	if r.dec.PeekKind() != end {
		return full, nil
	}
	_, err := r.token()
	return given, err
}

// literal is a scalar as onlyDefault compares it: numbers by value, so that 1.0 is 1.
func literal(tok jsontext.Token) string {
	switch tok.Kind() {
	case '0':
		v, _ := tok.Float() // ±Inf is no default
		return string(jsontext.AppendFloat(nil, v+0, 64))
	case '"':
		return string(appendQuoted(nil, tok.String()))
	}
	return tok.String()
}
