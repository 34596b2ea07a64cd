package processor

import (
	"context"
	"iter"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/switchyard-llm/switchyard/libs/discovery"
	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
)

type fixed discovery.Snapshot

func (f fixed) Watch(context.Context) iter.Seq[discovery.Snapshot] {
	return func(yield func(discovery.Snapshot) bool) { yield(discovery.Snapshot(f)) }
}

// Bookings are for those of the model alone; the snapshot is everybody's and stays as it is.
func TestAProcessorKnowsOnlyThoseOfItsModel(t *testing.T) {
	all := fixed{Revision: 7}
	for id, model := range map[string]string{"a": "m", "b": "other", "c": ""} {
		all.Members = append(all.Members, discovery.Member{Instance: &instancev1.Instance{Id: id, Model: &instancev1.ModelCard{Name: model}}})
	}
	for s := range (ofModel{all, "m"}).Watch(t.Context()) {
		var ids []string
		for _, m := range s.Members {
			ids = append(ids, m.Instance.GetId())
		}
		if diff := cmp.Diff([]string{"a"}, ids); diff != "" || s.Revision != 7 {
			t.Errorf("revision %d, members (-want +got):\n%s", s.Revision, diff)
		}
	}
	for _, m := range all.Members {
		if m.Instance == nil {
			t.Error("the shared snapshot was changed")
		}
	}
}
