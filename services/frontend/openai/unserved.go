package openai

import "strings"

// NotServed tells whether a path is one that OpenAI's API or other servers' extensions of
// it have, and this server does not: its clients are better told so than sent to look for
// a typo.
func NotServed(path string) bool {
	switch path { // extensions go by several names
	case "/rerank", "/v1/rerank", "/v2/rerank", "/score", "/v1/score", "/pooling", "/classify":
		return true
	}
	rest, ok := strings.CutPrefix(path, "/v1/")
	if !ok {
		return false
	}
	if id, ok := strings.CutPrefix(rest, "chat/completions/"); ok {
		return id != "" // of a stored completion
	}
	family, _, _ := strings.Cut(rest, "/")
	switch family {
	case "embeddings", "responses", "conversations", "audio", "images", "videos", "moderations", "realtime", "edits",
		"files", "uploads", "batches", "fine_tuning", "fine-tunes", "evals", "assistants", "threads", "vector_stores", "containers",
		"organization", "projects", "engines", "chatkit", "skills":
		return true
	}
	return false
}
