package native

import (
	"errors"
	"strings"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

func TestStatusesAreErrorsThatCanBeTold(t *testing.T) {
	if err := success.Err(); err != nil {
		t.Fatalf("success is %v", err)
	}
	for s, want := range map[Status]error{InProgress: nixl.ErrInProgress, InvalidParam: nixl.ErrDescriptor, NotFound: nixl.ErrUnknownPeer} {
		if err := s.Err(); !errors.Is(err, want) || !errors.Is(err, s) {
			t.Errorf("%v is not %v", err, want)
		}
	}
	for _, s := range []Status{Backend, InvalidState, Exception, NoTelemetry} {
		if err := s.Err(); errors.Unwrap(err) != nil || !errors.Is(err, s) || errors.Is(err, InProgress) {
			t.Errorf("%v has a meaning", err)
		}
	}
	if text := Status(-77).Error(); !strings.Contains(text, "-77") {
		t.Errorf("a status of a later version is %q", text)
	}
}
