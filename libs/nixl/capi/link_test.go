//go:build cgo && linux

package capi

import (
	"context"
	"errors"
	"testing"

	"github.com/switchyard-llm/switchyard/libs/nixl"
)

func TestFramesAreTakenInTheOrderOfTheirNumbers(t *testing.T) {
	l := newLink(nil, 1, true, 8)
	var got []uint64
	for _, number := range []uint64{2, 1, 0, 0, 4, 1, 3, 5} {
		turn, err := l.sort(frame{number: number})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range turn {
			got = append(got, f.number)
		}
	}
	for i, number := range got {
		if number != uint64(i) {
			t.Fatalf("taken in the order %v", got)
		}
	}
	if len(got) != 6 || len(l.early) != 0 {
		t.Fatalf("took %v, %d are left", got, len(l.early))
	}
}

func TestFramesWithoutEndThatComeTooEarlyAreRefused(t *testing.T) {
	l := newLink(nil, 1, true, 8)
	for number := uint64(1); number < 100; number++ {
		if _, err := l.sort(frame{number: number}); err != nil {
			if !errors.Is(err, errFrame) || number < 8 {
				t.Fatalf("frame %d: %v", number, err)
			}
			return
		}
	}
	t.Fatal("all were kept")
}

func TestNotesWaitForThePlacesOfThoseBefore(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	l := newLink(nil, 1, true, 8)
	l.narrow(2) // of the peer's inbox
	for range 2 {
		if err := l.reserve(ended); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.reserve(ended); !errors.Is(err, context.Canceled) {
		t.Fatalf("a third note: %v", err)
	}
	l.credit(1)
	l.credit(1) // said again
	if err := l.reserve(ended); err != nil {
		t.Fatal(err)
	}
	if err := l.reserve(ended); !errors.Is(err, context.Canceled) {
		t.Fatalf("a note too many: %v", err)
	}
	l.stop(nixl.ErrGone, broken)
	if err := l.reserve(context.Background()); !errors.Is(err, nixl.ErrGone) {
		t.Fatalf("after the end: %v", err)
	}
}
