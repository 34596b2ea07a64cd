package prefillworker

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard-llm/switchyard/libs/engine/enginetest"
	"github.com/switchyard-llm/switchyard/libs/nixl"
	"github.com/switchyard-llm/switchyard/libs/rpc"
	"github.com/switchyard-llm/switchyard/libs/sequence"
	decodeworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/decodeworker/v1"
	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	prefillworkerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/prefillworker/v1"
	transferv1 "github.com/switchyard-llm/switchyard/proto/switchyard/transfer/v1"
)

const committed = transferv1.NoteOutcome_NOTE_OUTCOME_COMMITTED

func TestAPromptIsComputedWrittenAndTold(t *testing.T) {
	h := newHarness(t, nil).start()
	h.publish(nil)
	n := h.decode.answerNote(committed)
	h.checkWritten(prompt, n.GetFirstTokens()[0].GetToken())
	if n.GetOwnHitTokens() != 0 || n.GetComputedTokens() != uint32(len(prompt)) || n.GetPrefillWorker() != "prefill" {
		t.Errorf("note %v", n)
	}
	h.acknowledged()
	h.report("one commit", func(r *prefillworkerv1.JobReport) bool {
		return r.GetCommitted() == 1 && r.GetWrittenTokens() == uint64(len(prompt)) && r.GetFailed() == 0
	})
	h.checkIdle()
	h.publish(nil) // the second finds its two full blocks here
	if n := h.decode.answerNote(committed); n.GetOwnHitTokens() != 2*blockTokens || n.GetComputedTokens() != 2 {
		t.Errorf("note %v, want a hit of two blocks", n)
	}
	h.acknowledged()
}

func TestASequenceThatBeganElsewhereGoesOn(t *testing.T) {
	h := newHarness(t, nil)
	whole := enginetest.ToyAnswer(prompt, 3)
	h.decode.end = len(prompt) + 2
	h.start()
	h.publish(func(r *transferv1.RemotePrefillRequest) {
		r.Sequence.Generated, r.Sequence.MaxTokens = whole[:2], 3
	})
	first := h.decode.answerNote(committed).GetFirstTokens()[0]
	if first.GetToken() != whole[2] || first.GetFinishReason() != generationv1.FinishReason_FINISH_REASON_LENGTH {
		t.Errorf("first token %v, want %d, the last", first, whole[2])
	}
	h.checkWritten(slices.Concat(prompt, whole[:2]), first.GetToken())
	h.acknowledged()
}

func TestAJobWithoutItsSequenceGetsItWithTheTicket(t *testing.T) {
	h := newHarness(t, nil)
	h.decode.claim = func(_ int, r *decodeworkerv1.ClaimPrefillRequest) (*decodeworkerv1.ClaimPrefillResponse, error) {
		answer := h.decode.ticket(0)
		if r.GetWantSequence() {
			answer.GetTicket().Sequence = spec()
		}
		return answer, nil
	}
	h.start()
	h.publish(func(r *transferv1.RemotePrefillRequest) { r.Sequence = nil })
	h.checkWritten(prompt, h.decode.answerNote(committed).GetFirstTokens()[0].GetToken())
	h.acknowledged()
}

// What a claim is answered decides what becomes of the job: it is dropped, or it comes back
// by another attempt.
func TestAClaimsAnswerDecidesOnTheJob(t *testing.T) {
	for _, tc := range []struct {
		name    string
		answer  *decodeworkerv1.ClaimPrefillResponse
		err     error
		back    bool
		abandon bool
	}{
		{"gone", answerGone, nil, false, false},
		{"another life", nil, rpc.FailedPrecondition("incarnation", "another life"), false, false},
		{"later", answerLater, nil, true, false},
		{"an error, maybe after the grant", nil, status.Error(codes.Unavailable, "lost"), true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHarness(t, nil)
			h.decode.claim = func(n int, _ *decodeworkerv1.ClaimPrefillRequest) (*decodeworkerv1.ClaimPrefillResponse, error) {
				if n > 1 {
					return h.decode.ticket(0), nil
				}
				return tc.answer, tc.err
			}
			h.start()
			h.publish(nil)
			first := take(t, "a claim", h.decode.claims)
			if tc.abandon {
				if r := take(t, "the word", h.decode.abandoned); r.GetAttemptId() != first.GetAttemptId() {
					t.Errorf("attempt %s was abandoned, want %s", r.GetAttemptId(), first.GetAttemptId())
				}
			}
			if tc.back {
				h.decode.answerNote(committed)
				if again := take(t, "a claim", h.decode.claims); again.GetAttemptId() == first.GetAttemptId() {
					t.Errorf("attempt %s was used twice", again.GetAttemptId())
				}
			}
			h.acknowledged()
			if n := len(h.decode.claims) + len(h.decode.abandoned); n != 0 {
				t.Errorf("%d more claims or words", n)
			}
			h.checkIdle()
		})
	}
}

func TestAJobOfAFormerLifeIsDropped(t *testing.T) {
	h := newHarness(t, nil)
	again := proto.CloneOf(h.decode.instance)
	again.Incarnation = "2"
	h.members.Store(again)
	h.start()
	h.publish(nil)
	h.acknowledged()
	if n := len(h.decode.claims); n != 0 {
		t.Errorf("%d claims", n)
	}
}

func TestAJobOfAWorkerThatIsNotListedYetComesBack(t *testing.T) {
	h := newHarness(t, nil)
	instance := h.members.Swap((*instancev1.Instance)(nil))
	h.start()
	h.publish(nil)
	h.report("a delivery", func(r *prefillworkerv1.JobReport) bool { return r.GetDeliveries() == 1 })
	h.members.Store(instance)
	h.decode.answerNote(committed)
	h.acknowledged()
}

// A handshake that took too long ends with a deadline of its own, which is not the job's.
func TestAPeerThatCannotBeReachedGivesTheJobBack(t *testing.T) {
	for _, cause := range []error{nixl.ErrUnreachable, context.DeadlineExceeded, nixl.ErrFenced} {
		t.Run(cause.Error(), func(t *testing.T) {
			h := newHarness(t, nil)
			var tries atomic.Int32
			h.agent.addPeer = func() error {
				if tries.Add(1) == 1 {
					return fmt.Errorf("add peer: %w", cause)
				}
				return nil
			}
			h.start()
			h.publish(nil)
			take(t, "the word", h.decode.abandoned)
			h.decode.answerNote(committed)
			h.acknowledged()
			h.checkIdle()
		})
	}
}

func TestAPrefixThatOnlyTheDecodeWorkerHasIsRead(t *testing.T) {
	for name, tc := range map[string]struct {
		outcome decodeworkerv1.PrefixOutcome
		atLeast uint32
		read    uint32
	}{
		"held":                        {decodeworkerv1.PrefixOutcome_PREFIX_OUTCOME_OK, 0, 2 * blockTokens},
		"held, and just long enough":  {decodeworkerv1.PrefixOutcome_PREFIX_OUTCOME_OK, 2 * blockTokens, 2 * blockTokens},
		"held, but sooner computed":   {decodeworkerv1.PrefixOutcome_PREFIX_OUTCOME_OK, 2*blockTokens + 1, 0},
		"not held until it was read":  {decodeworkerv1.PrefixOutcome_PREFIX_OUTCOME_STALE, 0, 0},
		"nor, and it was not read at": {decodeworkerv1.PrefixOutcome_PREFIX_OUTCOME_STALE, 1 << 31, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, nil)
			held := prompt[:2*blockTokens]
			if tc.read == 0 { // what was held is something else by now
				held = slices.Repeat([]sequence.Token{9}, 2*blockTokens)
			}
			h.decode.fill(held)
			h.decode.claim = func(int, *decodeworkerv1.ClaimPrefillRequest) (*decodeworkerv1.ClaimPrefillResponse, error) {
				answer := h.decode.ticket(2)
				answer.GetTicket().ReadAtLeast = tc.atLeast
				return answer, nil
			}
			h.decode.release = func() decodeworkerv1.PrefixOutcome { return tc.outcome }
			h.start()
			h.publish(nil)
			n := h.decode.answerNote(committed)
			if n.GetReadTokens() != tc.read || n.GetComputedTokens() != uint32(len(prompt))-tc.read {
				t.Errorf("note %v, want %d tokens read", n, tc.read)
			}
			h.decode.fill(prompt[:2*blockTokens])
			h.checkWritten(prompt, n.GetFirstTokens()[0].GetToken())
			h.acknowledged()
			h.checkIdle()
		})
	}
}

func TestANoteThatIsNotAnsweredIsSentAgain(t *testing.T) {
	h := newHarness(t, nil).start()
	h.publish(nil)
	take(t, "a note", h.decode.notes)
	h.decode.answerNote(committed)
	h.acknowledged()
}

func TestAStaleNoteGivesTheJobBack(t *testing.T) {
	h := newHarness(t, nil).start()
	h.publish(nil)
	h.decode.answerNote(transferv1.NoteOutcome_NOTE_OUTCOME_STALE)
	h.decode.answerNote(committed)
	h.acknowledged()
	h.report("one of each", func(r *prefillworkerv1.JobReport) bool { return r.GetStale() == 1 && r.GetCommitted() == 1 })
}
