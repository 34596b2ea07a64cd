package deadletter

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/switchyard-llm/switchyard/libs/broker"
	"github.com/switchyard-llm/switchyard/libs/embedded"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLettersOutliveTheServerAndTheLatestAreRead(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	cfg := embedded.NATSConfig{Dir: t.TempDir()}
	server, err := embedded.StartNATS(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := broker.Seek(server.URL(), "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if none, _, err := Latest(ctx, nc, 5); err != nil || none != nil {
		t.Errorf("before the first: %v, %v", none, err)
	}
	var sent []*generationv1.DeadLetter
	for i := range 4 {
		letter := &generationv1.DeadLetter{
			RequestId: fmt.Sprint("r", i), Model: "m", Time: timestamppb.New(time.Unix(int64(i), 0)), PromptTokens: 7,
			Deaths: []*generationv1.WorkerDeath{{Worker: "decode-0", Incarnation: "1", Error: "gone"}, {Worker: "decode-1", Alone: true}},
		}
		sent = append(sent, letter)
		if err := Send(ctx, nc, letter); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Publish(Subject, []byte("no letter")); err != nil {
		t.Fatal(err)
	}
	if err := nc.FlushWithContext(ctx); err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.Address = server.Address()
	again, err := embedded.StartNATS(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	for !nc.IsConnected() {
		if err := nc.FlushWithContext(ctx); ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []int{3, 99, 0} {
		got, others, err := Latest(ctx, nc, n)
		want := sent[min(len(sent), max(0, len(sent)+1-n)):] // the last message is none
		if err != nil || len(got) != len(want) || others != min(1, n) {
			t.Fatalf("the latest %d: %v, %d others, %v", n, got, others, err)
		}
		for i := range want {
			if !proto.Equal(got[i], want[i]) {
				t.Errorf("letter %d is %v, want %v", i, got[i], want[i])
			}
		}
	}
}
