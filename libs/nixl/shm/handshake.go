//go:build linux

package shm

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

// protocolVersion changes when old and new agents cannot talk.
const protocolVersion = 1

// greeting is the payload of a hello.
type greeting struct {
	Version int `json:"version"`
	// Wants is the name and incarnation of the agent that the sender expects here.
	Wants nixl.PeerID `json:"wants"`
	// Metadata is the sender's own, as it publishes it.
	Metadata json.RawMessage `json:"metadata"`
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

// encodeRefusal turns an error into a refusal.
func encodeRefusal(err error) ([]byte, error) {
	r := refused{Code: "unreachable", Text: err.Error()}
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

// decodeRefusal turns a refusal back into an error, seen from our side.
func decodeRefusal(payload []byte) error {
	var r refused
	if err := json.Unmarshal(payload, &r); err != nil {
		return fmt.Errorf("%w: refusal: %w", errFrame, err)
	}
	if m := r.Mismatch; r.Code == "mismatch" && m != nil {
		return &nixl.MismatchError{Field: m.Field, Local: m.Remote, Remote: m.Local}
	}
	for _, c := range codes {
		if r.Code == c.code {
			return fmt.Errorf("%w: the peer says: %s", c.err, r.Text)
		}
	}
	return fmt.Errorf("%w: the peer says: %s", nixl.ErrUnreachable, r.Text)
}

// checkGreeting returns the sender's metadata if it may be a peer of ours.
func checkGreeting(payload []byte, own nixl.Metadata) (nixl.Metadata, error) {
	var g greeting
	if err := json.Unmarshal(payload, &g); err != nil {
		return nixl.Metadata{}, fmt.Errorf("%w: hello: %w", errFrame, err)
	}
	if g.Version != protocolVersion {
		return nixl.Metadata{}, fmt.Errorf("shm protocol version is %d, want %d", g.Version, protocolVersion)
	}
	if g.Wants != own.Peer {
		return nixl.Metadata{}, fmt.Errorf("%w: %s was wanted, here is %s", nixl.ErrUnknownPeer, g.Wants, own.Peer)
	}
	m, err := nixl.ParseMetadata(g.Metadata)
	if err != nil {
		return nixl.Metadata{}, err
	}
	return m, own.Compatible(m)
}
