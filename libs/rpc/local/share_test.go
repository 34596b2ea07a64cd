package local

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
	processorv1 "github.com/switchyard-llm/switchyard/proto/switchyard/processor/v1"
)

// Both ways of sharing give what a copy would, and clear what was there before.
func TestSharedMessagesAreEqualAndShareWhatIsBelow(t *testing.T) {
	seed := uint64(7)
	source := &generationv1.Request{
		RequestId: "r", Input: &generationv1.Request_TokenIds{TokenIds: &generationv1.TokenIds{Ids: []uint32{1, 2}}},
		Sampling: &generationv1.Sampling{Seed: &seed}, Stream: true,
	}
	source.ProtoReflect().SetUnknown([]byte{0xf8, 0x07, 0x01}) // field 127
	var s sharer
	if !s.plan(source.ProtoReflect(), source).open {
		t.Error("the quick way is not taken for the messages of this repository")
	}
	for name, share := range map[string]func(dst *generationv1.Request) error{
		"fields": func(dst *generationv1.Request) error { return s.share(dst, source) },
		"reflected": func(dst *generationv1.Request) error {
			shareReflected(dst, source.ProtoReflect())
			dst.ProtoReflect().SetUnknown(source.ProtoReflect().GetUnknown())
			return nil
		},
	} {
		got := &generationv1.Request{Model: "left over", Limits: &generationv1.Limits{}}
		if err := share(got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(source, got, protocmp.Transform()); diff != "" || !proto.Equal(source, got) {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if got.Sampling != source.Sampling {
			t.Errorf("%s: copied what is below", name)
		}
	}
	if err := s.share(&processorv1.GenerateRequest{}, source); err == nil {
		t.Error("a message passed as another type")
	}
}
