package observe

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
	plannerv1 "github.com/switchyard-llm/switchyard/proto/switchyard/planner/v1"
)

var start = time.Unix(1_000_000, 0)

func report(role instancev1.Role, id, life string, at time.Duration) *plannerv1.ReportRequest {
	return &plannerv1.ReportRequest{
		Instance: &instancev1.Instance{Role: role, Id: id, Incarnation: life}, Time: timestamppb.New(start.Add(at)),
	}
}

func TestBoardKeepsTheLatestReportOfTheLatestLife(t *testing.T) {
	const decode = instancev1.Role_ROLE_DECODE_WORKER
	b := NewBoard()
	b.Add(report(decode, "d1", "2", time.Second), start)
	b.Add(report(decode, "d1", "2", 0), start)             // overtaken
	b.Add(report(decode, "d1", "1", 9*time.Second), start) // of an earlier life
	b.Add(report(decode, "d0", "1", 0), start)             // another member
	b.Add(report(instancev1.Role_ROLE_FRONTEND, "f", "1", 0), start)
	got := b.Members(start.Add(3 * time.Second))
	if len(got) != 3 {
		t.Fatalf("%d members, want 3", len(got))
	}
	for i, want := range []string{"f", "d0", "d1"} {
		if id := got[i].GetLatest().GetInstance().GetId(); id != want {
			t.Errorf("member %d is %s, want %s", i, id, want)
		}
	}
	d1 := got[2]
	if d1.GetLatest().GetInstance().GetIncarnation() != "2" || !d1.GetLatest().GetTime().AsTime().Equal(start.Add(time.Second)) {
		t.Errorf("d1's report is %v", d1.GetLatest())
	}
	if d1.GetAge().AsDuration() != 3*time.Second {
		t.Errorf("age is %v, want 3s", d1.GetAge().AsDuration())
	}
}

func TestBoardForgetsTheSilent(t *testing.T) {
	b := NewBoard()
	b.Add(report(instancev1.Role_ROLE_FRONTEND, "f", "1", 0), start)
	if got := b.Members(start.Add(keep)); len(got) != 1 {
		t.Errorf("%d members after %v, want 1", len(got), keep)
	}
	if got := b.Members(start.Add(keep + 1)); len(got) != 0 {
		t.Errorf("%d members after more, want none", len(got))
	}
}
