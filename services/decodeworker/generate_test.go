package decodeworker

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/switchyard-llm/switchyard/libs/engine/enginetest"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
)

func TestGenerateAnswersOneSequence(t *testing.T) {
	h := newHarness(t, nil).start()
	client, err := h.client.Generate(within(t), &decodeworkerv1.GenerateRequest{Sequence: spec(6)})
	if err != nil {
		t.Fatal(err)
	}
	var tokens []uint32
	for {
		m, err := client.Recv()
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, m.GetTokens()...)
		if e := m.GetEnded(); e != nil {
			if e.GetReason() != byLength {
				t.Errorf("ended %v", e)
			}
			break
		}
	}
	want := enginetest.ToyAnswer(prompt, 6)
	if len(tokens) != len(want) || tokens[0] != want[0] || tokens[5] != want[5] {
		t.Errorf("tokens %v, want %v", tokens, want)
	}
	h.checkIdle()
}

func TestGenerateEndsWithItsCaller(t *testing.T) {
	h := newHarness(t, nil)
	g := newGate()
	h.step = g.wait
	h.start()
	ctx, cancel := context.WithCancel(t.Context())
	client, err := h.client.Generate(ctx, &decodeworkerv1.GenerateRequest{Sequence: spec(100)})
	if err != nil {
		t.Fatal(err)
	}
	g.one <- struct{}{}
	if _, err := client.Recv(); err != nil {
		t.Fatal(err)
	}
	cancel()
	close(g.open)
	h.checkIdle()
}

func TestGenerateRefusesWhatCannotRun(t *testing.T) {
	h := newHarness(t, nil).start()
	for _, tc := range []struct {
		name string
		r    *decodeworkerv1.GenerateRequest
	}{
		{"no sequence", &decodeworkerv1.GenerateRequest{}},
		{"too long", &decodeworkerv1.GenerateRequest{Sequence: spec(10_000)}},
	} {
		client, err := h.client.Generate(within(t), tc.r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Recv(); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v, want an invalid argument", tc.name, err)
		}
	}
}

func TestDescribeShowsThePool(t *testing.T) {
	h := newHarness(t, nil).start()
	d, err := h.client.Describe(within(t), &decodeworkerv1.DescribeRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if d.GetPool().GetCapacityBlocks() != 40 || d.GetInstance().GetId() != "decode" || len(d.GetPool().GetStates()) != 7 {
		t.Errorf("%v", d)
	}
}
