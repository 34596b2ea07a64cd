package worker

import (
	"fmt"
	"slices"

	instancev1 "github.com/switchyard-llm/switchyard/proto/switchyard/instance/v1"
)

// Style is how the blocks of a prompt get from the prefill to the decode worker.
type Style string

const (
	// Push: the job waits in the prefill queue; who takes it claims the blocks and writes them.
	Push Style = "push"
	// Pull: the decode worker calls a prefill worker, reads what it holds and releases it.
	Pull Style = "pull"
	// Rendezvous: the decode worker calls a prefill worker, which writes while it computes.
	Rendezvous Style = "rendezvous"
)

var styles = []Style{Push, Pull, Rendezvous}

func (s Style) valid() bool { return slices.Contains(styles, s) }

// UnmarshalText takes the name of a style.
func (s *Style) UnmarshalText(text []byte) error {
	if !Style(text).valid() {
		return fmt.Errorf("want one of %v", styles) // who reads it names the key and the text
	}
	*s = Style(text)
	return nil
}

// MarshalText gives the name of the style.
func (s Style) MarshalText() ([]byte, error) { return []byte(s), nil }

// Wire is the style as a model card says it.
func (s Style) Wire() instancev1.HandOffStyle {
	switch s {
	case Pull:
		return instancev1.HandOffStyle_HAND_OFF_STYLE_PULL
	case Rendezvous:
		return instancev1.HandOffStyle_HAND_OFF_STYLE_RENDEZVOUS
	}
	return instancev1.HandOffStyle_HAND_OFF_STYLE_PUSH
}

// StyleOf reads the style of a card; one that says nothing pushes.
func StyleOf(card *instancev1.ModelCard) Style {
	switch card.GetHandOffStyle() {
	case instancev1.HandOffStyle_HAND_OFF_STYLE_PULL:
		return Pull
	case instancev1.HandOffStyle_HAND_OFF_STYLE_RENDEZVOUS:
		return Rendezvous
	}
	return Push
}
