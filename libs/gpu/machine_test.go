package gpu

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a driver that says what it is told, and notices calls after its end.
type fake struct {
	t       *testing.T
	answers chan answer
	blocked chan struct{} // a sample waits for it, if there is one
	inside  chan struct{}
	closed  atomic.Int32
	freed   atomic.Int32
}

type answer struct {
	event Event
	ok    bool
	err   error
}

func newFake(t *testing.T) *fake { return &fake{t: t, answers: make(chan answer, 1024)} }

func (f *fake) open() {
	if f.closed.Load() > 0 {
		f.t.Error("a call into a closed driver")
	}
}

func (f *fake) devices() ([]Device, error) { f.open(); return []Device{{UUID: "a"}}, nil }

func (f *fake) sample(string) (Sample, error) {
	f.open()
	if f.blocked != nil {
		f.inside <- struct{}{}
		<-f.blocked
		f.open()
	}
	return Sample{}, nil
}

func (f *fake) traffic(string) (Traffic, error) { f.open(); return Traffic{}, nil }

func (f *fake) path(string, string) (Path, error) { f.open(); return Path{NVLink: true}, nil }

func (f *fake) watch() (watch, error) { f.open(); return fakeWatch{f}, nil }

func (f *fake) close() error { f.closed.Add(1); return nil }

type fakeWatch struct{ *fake }

func (f fakeWatch) close() { f.open(); f.freed.Add(1) }

func (f fakeWatch) next(wait time.Duration) (Event, bool, error) {
	f.open()
	select {
	case a := <-f.answers:
		return a.event, a.ok, a.err
	case <-time.After(min(wait, time.Millisecond)):
		return Event{}, false, nil
	}
}

func TestEventsAreReportedInOrderUntilTheEnd(t *testing.T) {
	f := newFake(t)
	m := newMachine(f)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	for i := range 10 {
		f.answers <- answer{event: Event{UUID: "a", Xid: uint64(i)}, ok: true}
	}
	for i := range 10 {
		if e := <-m.Events(); e.Xid != uint64(i) {
			t.Fatalf("got %+v, want %d", e, i)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("got %v", err)
	}
	if _, open := <-m.Events(); open {
		t.Error("events after the end")
	}
	if f.freed.Load() != 1 || m.Run(context.Background()) == nil {
		t.Error("the watch was not freed, or Run ran twice")
	}
	if err := m.Close(context.Background()); err != nil || f.closed.Load() != 1 {
		t.Errorf("close: %v", err)
	}
}

func TestEventsThatNobodyTakesAreCounted(t *testing.T) {
	f := newFake(t)
	m := newMachine(f)
	for range eventQueue + 5 {
		f.answers <- answer{event: Event{UUID: "a"}, ok: true}
	}
	f.answers <- answer{err: ErrLost}
	if err := m.Run(context.Background()); !errors.Is(err, ErrLost) {
		t.Errorf("got %v", err)
	}
	n := 0
	for range m.Events() {
		n++
	}
	if n != eventQueue || m.Dropped() != 5 {
		t.Errorf("%d events, %d dropped", n, m.Dropped())
	}
	_ = m.Close(context.Background())
}

func TestCloseEndsRunBeforeTheDriver(t *testing.T) {
	f := newFake(t)
	m := newMachine(f)
	done := make(chan error, 1)
	go func() { done <- m.Run(context.Background()) }()
	f.answers <- answer{event: Event{UUID: "a"}, ok: true}
	<-m.Events()
	for range 2 {
		if err := m.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-done; err != nil || f.freed.Load() != 1 || f.closed.Load() != 1 {
		t.Errorf("%v, freed %d times, closed %d times", err, f.freed.Load(), f.closed.Load())
	}
	if err := m.Run(context.Background()); !errors.Is(err, ErrClosed) {
		t.Errorf("run: %v", err)
	}
	_, e1 := m.Devices()
	_, e2 := m.Sample("a")
	_, e3 := m.Traffic("a")
	_, e4 := m.Path("a", "b")
	for _, err := range []error{e1, e2, e3, e4} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

func TestCloseWaitsForCallsAsLongAsItMay(t *testing.T) {
	f := newFake(t)
	f.blocked, f.inside = make(chan struct{}), make(chan struct{})
	m := newMachine(f)
	done := make(chan error, 1)
	go func() {
		_, err := m.Sample("a")
		done <- err
	}()
	<-f.inside
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := m.Close(ended); !errors.Is(err, context.Canceled) || f.closed.Load() != 0 {
		t.Fatalf("closed under a call: %v", err)
	}
	if _, err := m.Sample("a"); !errors.Is(err, ErrClosed) {
		t.Errorf("a call after Close: %v", err)
	}
	close(f.blocked)
	if err := m.Close(context.Background()); err != nil || f.closed.Load() != 1 {
		t.Errorf("got %v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestPathToItselfIsRefused(t *testing.T) {
	m := newMachine(newFake(t))
	defer m.Close(context.Background())
	if _, err := m.Path("a", "a"); err == nil || !strings.Contains(err.Error(), "itself") {
		t.Errorf("got %v", err)
	}
	if p, err := m.Path("a", "b"); err != nil || !p.NVLink {
		t.Errorf("got %+v, %v", p, err)
	}
}

func TestWithoutADriverOpenSaysWhatWasLookedFor(t *testing.T) {
	name := "libnvidia-ml-that-is-not-there.so.1"
	m, err := Open(Options{Library: name})
	if m != nil || !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), name) {
		t.Fatalf("got %v, %v", m, err)
	}
}

func TestDefaultsAreThoseOfAUsualMachine(t *testing.T) {
	if o := (Options{}).complete(); o.Library != "libnvidia-ml.so.1" || o.Sys == nil {
		t.Errorf("got %+v", o)
	}
	sys := fstest.MapFS{}
	if o := (Options{Library: "x", Sys: sys}).complete(); o.Library != "x" || o.Sys == nil {
		t.Errorf("got %+v", o)
	}
}
