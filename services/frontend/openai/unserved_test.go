package openai

import "testing"

func TestKnownPathsThatAreNotServed(t *testing.T) {
	for path, want := range map[string]bool{
		"/v1/embeddings": true, "/v1/responses": true, "/v1/responses/resp_1/input_items": true, "/v1/audio/speech": true,
		"/v1/audio/transcriptions": true, "/v1/images/generations": true, "/v1/files": true, "/v1/files/file-1/content": true,
		"/v1/batches": true, "/v1/batches/b/cancel": true, "/v1/fine_tuning/jobs": true, "/v1/assistants": true, "/v1/assistants/a": true,
		"/v1/threads/runs": true, "/v1/vector_stores": true, "/v1/moderations": true, "/v1/realtime": true, "/v1/realtime/sessions": true,
		"/v1/rerank": true, "/v2/rerank": true, "/rerank": true, "/v1/score": true, "/score": true, "/v1/chat/completions/chatcmpl-1": true,
		"/v1/embeddingsx": false, "/embeddings": false, "/v1/": false, "/v1": false, "/": false, "": false, "/v1/chat/completions/": false,
		"/v1/models": false, "/v1/chat": false, "/v2/embeddings": false, "/v1/completion": false,
	} {
		if got := NotServed(path); got != want {
			t.Errorf("NotServed(%q) = %v, want %v", path, got, want)
		}
	}
}
