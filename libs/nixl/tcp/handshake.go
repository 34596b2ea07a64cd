package tcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"time"

	"github.com/switchyard-llm/switchyard/libs/nixl/internal/wire"
)

const (
	// protocolVersion changes when old and new agents cannot talk.
	protocolVersion = 1
	// handshakeTimeout bounds the exchange of hello and welcome on both sides.
	handshakeTimeout = 5 * time.Second
	// maxAttempt is far beyond what an agent makes in its life, and any JSON reader can tell it
	// from its neighbours.
	maxAttempt = 1 << 53
)

// nonce ties the connections of a link together: only the two ends know it.
type nonce [16]byte

// hello opens a link.
type hello struct {
	wire.Greeting
	// Attempt numbers the sender's links from 1, so that one which it has given up cannot take
	// the place of a later one.
	Attempt uint64 `json:"attempt"`
	// Connections is how many data connections the sender wants, 1 to 16.
	Connections int `json:"connections"`
	// Verify says that the sender wants the bytes checksummed.
	Verify bool `json:"verify"`
}

// welcome is the answer to a hello. That to a join is empty.
type welcome struct {
	Metadata    json.RawMessage `json:"metadata"`
	Nonce       []byte          `json:"nonce"`
	Connections int             `json:"connections"`
	Verify      bool            `json:"verify"`
}

// join makes a connection part of a link.
type join struct {
	Version int    `json:"version"`
	Nonce   []byte `json:"nonce"`
	Index   int    `json:"index"` // from 1
}

// check reports a number that no agent sends.
func (h hello) check() error {
	switch {
	case h.Attempt < 1 || h.Attempt > maxAttempt:
		return fmt.Errorf("%w: a hello with attempt %d, want 1 to %d", wire.ErrFrame, h.Attempt, uint64(maxAttempt))
	case h.Connections < 1 || h.Connections > maxConnections:
		return fmt.Errorf("%w: a hello that wants %d connections, want 1 to %d", wire.ErrFrame, h.Connections, maxConnections)
	}
	return nil
}

func (w welcome) check(wanted int) error {
	if w.Connections < 1 || w.Connections > wanted || len(w.Nonce) != len(nonce{}) {
		return fmt.Errorf("%w: a welcome with %d connections of %d wanted and a nonce of %d bytes", wire.ErrFrame, w.Connections, wanted, len(w.Nonce))
	}
	return nil
}

func (j join) check() error {
	if j.Version != protocolVersion || j.Index < 1 || j.Index > maxConnections || len(j.Nonce) != len(nonce{}) {
		return fmt.Errorf("%w: a join of version %d, want %d, as connection %d, with a nonce of %d bytes", wire.ErrFrame, j.Version, protocolVersion, j.Index, len(j.Nonce))
	}
	return nil
}

// parse reads a handshake's payload.
func parse[T any](payload []byte) (v T, err error) {
	if err := json.Unmarshal(payload, &v); err != nil {
		return v, fmt.Errorf("%w: handshake: %.256s", wire.ErrFrame, err.Error()) // it may quote all of a long number
	}
	return v, nil
}

func sendJSON(socket net.Conn, k wire.Kind, v any) error {
	payload, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = socket.Write(wire.Append(nil, k, payload))
	return err
}

// within lets ctx bound what is done with a socket; done says that it is over, and tells
// whether ctx has cut it short.
func within(ctx context.Context, socket net.Conn) (done func() error) {
	stop := context.AfterFunc(ctx, func() { _ = socket.SetDeadline(time.Unix(1, 0)) })
	return func() error {
		if !stop() {
			return ctx.Err()
		}
		return nil
	}
}
