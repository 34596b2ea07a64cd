package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// Greeting is the payload of a hello, in JSON.
type Greeting struct {
	// Version is of the transport's protocol; it changes when old and new agents cannot talk.
	Version int `json:"version"`
	// Wants is the name and incarnation of the agent that the sender expects here.
	Wants nixl.PeerID `json:"wants"`
	// Metadata is the sender's own, as it publishes it.
	Metadata json.RawMessage `json:"metadata"`
}

// Check returns the sender's metadata if it may be a peer of the agent of which own tells.
func (g Greeting) Check(own nixl.Metadata, version int) (nixl.Metadata, error) {
	if g.Version != version {
		return nixl.Metadata{}, fmt.Errorf("%s protocol version is %d, want %d", own.Transport, g.Version, version)
	}
	if err := g.Wants.Validate(); err != nil {
		return nixl.Metadata{}, fmt.Errorf("the wanted peer: %w", err)
	}
	if g.Wants != own.Peer { // who does not know the own life is not told
		return nixl.Metadata{}, fmt.Errorf("%w: %s is not here", nixl.ErrUnknownPeer, g.Wants)
	}
	m, err := nixl.ParseMetadata(g.Metadata)
	if err != nil {
		return nixl.Metadata{}, err
	}
	return m, own.Compatible(m)
}

// refused is the payload of a refusal. Code says which error it becomes.
type refused struct {
	Code string `json:"code"`
	Text string `json:"text"`
	// Mismatch is set for code "mismatch", from the refusing side's view.
	Mismatch *nixl.MismatchError `json:"mismatch,omitempty"`
}

// codes are the errors that keep their identity across a refusal.
var codes = []struct {
	code string
	err  error
}{
	{"fenced", nixl.ErrFenced},
	{"unknown", nixl.ErrUnknownPeer},
	{"closed", nixl.ErrGone},
}

// maxTextBytes bounds the texts of a refusal, which end in the other side's errors and logs.
const maxTextBytes = 1 << 10

func clip(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxTextBytes)], "") }

// EncodeRefusal turns an error into the payload of a refusal.
func EncodeRefusal(err error) ([]byte, error) {
	r := refused{Code: "unreachable", Text: clip(err.Error())}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			r.Code = c.code
		}
	}
	if errors.As(err, &r.Mismatch) {
		r.Code = "mismatch"
	}
	return json.Marshal(r)
}

// DecodeRefusal turns a refusal back into an error, seen from our side.
func DecodeRefusal(payload []byte) error {
	var r refused
	if err := json.Unmarshal(payload, &r); err != nil {
		return fmt.Errorf("%w: refusal: %w", ErrFrame, err)
	}
	if m := r.Mismatch; r.Code == "mismatch" && m != nil {
		return &nixl.MismatchError{Field: clip(m.Field), Local: clip(m.Remote), Remote: clip(m.Local)}
	}
	r.Text = clip(r.Text)
	for _, c := range codes {
		if r.Code == c.code {
			return fmt.Errorf("%w: the peer says: %s", c.err, r.Text)
		}
	}
	return fmt.Errorf("%w: the peer says: %s", nixl.ErrUnreachable, r.Text)
}
