package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/switchyard-llm/switchyard/libs/broker"
	"github.com/switchyard-llm/switchyard/libs/deadletter"
	"github.com/switchyard-llm/switchyard/libs/embedded"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

func TestDeadLettersAreShown(t *testing.T) {
	server, err := embedded.StartNATS(t.Context(), embedded.NATSConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	show := func(more ...string) (string, string) {
		var out, errs bytes.Buffer
		execute(t.Context(), append([]string{"dead-letters", "--nats", server.URL()}, more...), &out, &errs)
		return out.String(), errs.String()
	}
	if out, errs := show(); !strings.HasPrefix(out, "no request") || errs != "" {
		t.Errorf("of nothing: %q, %q", out, errs)
	}
	nc, err := broker.Connect(t.Context(), server.URL(), "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for _, id := range []string{"r1", "r2"} {
		if err := deadletter.Send(t.Context(), nc, &generationv1.DeadLetter{
			RequestId: id, Model: "m", Time: timestamppb.New(time.Unix(0, 0)), PromptTokens: 12, GeneratedTokens: 3,
			Deaths: []*generationv1.WorkerDeath{{Worker: "prefill-0"}, {Worker: "decode-1", Alone: true}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	out, _ := show()
	if lines := strings.Split(out, "\n"); len(lines) != 4 || !strings.Contains(lines[2], "r2") || !strings.Contains(lines[2], "prefill-0, decode-1 (alone)") {
		t.Errorf("shown:\n%s", out)
	}
	if out, _ := show("--json", "--last", "1"); !strings.Contains(out, `"requestId":"r2"`) || strings.Contains(out, "r1") || strings.Count(out, "\n") != 1 {
		t.Errorf("shown as JSON: %s", out)
	}
	if _, errs := show("--last", "0"); !strings.Contains(errs, "--last is 0, want at least 1") {
		t.Errorf("--last 0: %q", errs)
	}
}
