// Package deadletter keeps, in a stream of NATS JetStream, what is known of requests that
// were ended because the workers that computed them died. Their texts are not kept.
package deadletter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/encoding/protojson"

	generationv1 "github.com/switchyard-llm/switchyard/proto/switchyard/generation/v1"
)

const (
	// Stream is the stream's name, and Subject what letters are published to, as JSON.
	Stream  = "DEAD-LETTERS"
	Subject = "switchyard.dead_letters"

	// What is kept; the oldest go first.
	lettersMax = 10_000
	bytesMax   = 16 << 20
	ageMax     = 30 * 24 * time.Hour

	// answerWithin bounds one question to NATS: a server that is just starting may never answer it.
	answerWithin = 500 * time.Millisecond
)

// persist asks until it was answered, or ctx ends.
func persist(ctx context.Context, ask func(context.Context) error) error {
	for {
		bounded, cancel := context.WithTimeout(ctx, answerWithin)
		err := ask(bounded)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
	}
}

// Send adds a letter, to a stream that it makes if it is not there.
func Send(ctx context.Context, nc *nats.Conn, letter *generationv1.DeadLetter) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("dead letters: %w", err)
	}
	data, err := protojson.Marshal(letter)
	if err != nil {
		return fmt.Errorf("encode a dead letter: %w", err)
	}
	err = persist(ctx, func(ctx context.Context) error {
		_, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
			Name: Stream, Subjects: []string{Subject}, Storage: jetstream.FileStorage,
			MaxMsgs: lettersMax, MaxBytes: bytesMax, MaxAge: ageMax,
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("stream %s: %w", Stream, err)
	}
	// One whose answer was lost may be there already, which its id tells.
	id := jetstream.WithMsgID(fmt.Sprint(letter.GetRequestId(), letter.GetTime().AsTime().UnixNano()))
	err = persist(ctx, func(ctx context.Context) error {
		_, err := js.Publish(ctx, Subject, data, id)
		return err
	})
	if err != nil {
		return fmt.Errorf("publish to %s: %w", Subject, err)
	}
	return nil
}

// Latest are the n letters that came last, the oldest of them first; none if nobody ever sent
// one. Messages that are no letters are left out and counted.
func Latest(ctx context.Context, nc *nats.Conn, n int) (letters []*generationv1.DeadLetter, others int, err error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, 0, fmt.Errorf("dead letters: %w", err)
	}
	var stream jetstream.Stream
	err = persist(ctx, func(ctx context.Context) (err error) {
		stream, err = js.Stream(ctx, Stream)
		return err
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, 0, nil
	}
	if errors.Is(err, nats.ErrNoResponders) {
		return nil, 0, errors.New("nats runs without JetStream, so that no dead letters are kept there")
	}
	if err != nil {
		return nil, 0, fmt.Errorf("stream %s: %w", Stream, err)
	}
	state := stream.CachedInfo().State
	past := state.LastSeq + 1
	for sequence := max(state.FirstSeq, past-min(past, uint64(n))); sequence < past; sequence++ {
		var m *jetstream.RawStreamMsg
		err := persist(ctx, func(ctx context.Context) (err error) {
			m, err = stream.GetMsg(ctx, sequence)
			return err
		})
		if errors.Is(err, jetstream.ErrMsgNotFound) { // somebody deleted it
			continue
		}
		if err != nil {
			return nil, 0, fmt.Errorf("letter %d of %s: %w", sequence, Stream, err)
		}
		letter := new(generationv1.DeadLetter)
		// Letters of a newer version may say more.
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(m.Data, letter); err != nil {
			others++
			continue
		}
		letters = append(letters, letter)
	}
	return letters, others, nil
}
