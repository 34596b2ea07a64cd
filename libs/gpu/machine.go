package gpu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// library is the name by which the loader finds the driver's library.
	library = "libnvidia-ml.so.1"
	// eventQueue bounds the events that wait to be received.
	eventQueue = 64
	// eventWait is how long the driver is asked to wait for an event, and so how late an
	// end of Run may be.
	eventWait = 200 * time.Millisecond
)

// Options say where to look. The zero value is right on a usual machine.
type Options struct {
	// Library is the driver's library: a path, or a name for the loader; empty means libnvidia-ml.so.1.
	Library string
	// Sys is the kernel's /sys; nil means that.
	Sys fs.FS
}

func (o Options) complete() Options {
	if o.Library == "" {
		o.Library = library
	}
	if o.Sys == nil {
		o.Sys = os.DirFS("/sys")
	}
	return o
}

// driver is what answers. It is called only while it is open.
type driver interface {
	devices() ([]Device, error)
	sample(uuid string) (Sample, error)
	traffic(uuid string) (Traffic, error)
	path(a, b string) (Path, error)
	watch() (watch, error)
	close() error
}

// watch waits for events of all GPUs.
type watch interface {
	// next returns false when there was none.
	next(time.Duration) (Event, bool, error)
	close()
}

// Machine is the GPUs of this machine. Its methods may be called concurrently. A call
// lasts as long as the driver takes, which can be seconds when a GPU is about to fail.
type Machine struct {
	driver  driver
	events  chan Event
	dropped atomic.Uint64
	stop    chan struct{} // closed by Close

	// mu guards what follows.
	mu     sync.Mutex
	closed bool
	ran    bool
	calls  int           // into the driver, in progress
	idle   chan struct{} // closed once closed is set and calls is zero
	end    sync.Once
	endErr error
}

// Open looks for the driver. Without one the error Is ErrUnavailable and says what was
// looked for. The driver's library has state of its own: one Machine per process.
func Open(o Options) (*Machine, error) {
	d, err := open(o.complete())
	if err != nil {
		return nil, err
	}
	return newMachine(d), nil
}

func newMachine(d driver) *Machine {
	return &Machine{driver: d, events: make(chan Event, eventQueue), stop: make(chan struct{}), idle: make(chan struct{})}
}

// enter lets one call into the driver, which must leave again.
func (m *Machine) enter() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return ErrClosed
	}
	m.calls++
	return nil
}

func (m *Machine) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls--
	if m.closed && m.calls == 0 {
		close(m.idle)
	}
}

// Devices lists the GPUs in the order of their indices.
func (m *Machine) Devices() ([]Device, error) {
	if err := m.enter(); err != nil {
		return nil, err
	}
	defer m.leave()
	return m.driver.devices()
}

// Sample tells how a GPU is. Errors: ErrUnknown, ErrLost, ErrClosed.
func (m *Machine) Sample(uuid string) (Sample, error) {
	if err := m.enter(); err != nil {
		return Sample{}, err
	}
	defer m.leave()
	return m.driver.sample(uuid)
}

// Traffic tells what goes over a GPU's links. It takes at least 40 ms where PCIe is
// measured. Errors: ErrUnknown, ErrLost, ErrClosed.
func (m *Machine) Traffic(uuid string) (Traffic, error) {
	if err := m.enter(); err != nil {
		return Traffic{}, err
	}
	defer m.leave()
	return m.driver.traffic(uuid)
}

// Path tells how two different GPUs reach each other. Errors: ErrUnknown, ErrLost, ErrClosed.
func (m *Machine) Path(a, b string) (Path, error) {
	if err := m.enter(); err != nil {
		return Path{}, err
	}
	defer m.leave()
	if a == b {
		return Path{}, fmt.Errorf("path from GPU %s: it leads to itself", a)
	}
	return m.driver.path(a, b)
}

// Events yields the Xid events that happen while Run runs, and is closed at its end. At
// most 64 wait; further ones are dropped and counted.
func (m *Machine) Events() <-chan Event { return m.events }

// Dropped counts the events that nobody came for.
func (m *Machine) Dropped() uint64 { return m.dropped.Load() }

// Run reports events until ctx ends or Close is called, and returns nil then, at most
// 200 ms later. It can be called once. An error ends it: ErrUnavailable when no GPU here
// reports Xid events, ErrLost when one is lost, after which the others are watched by a new Machine.
func (m *Machine) Run(ctx context.Context) error {
	if err := m.begin(); err != nil {
		return fmt.Errorf("watch GPUs: %w", err)
	}
	defer m.leave()
	defer close(m.events)
	w, err := m.driver.watch()
	if err != nil {
		return fmt.Errorf("watch GPUs: %w", err)
	}
	defer w.close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.stop:
			return nil
		default:
		}
		e, ok, err := w.next(eventWait)
		if ok {
			m.report(e)
		}
		if err != nil {
			return fmt.Errorf("watch GPUs: %w", err)
		}
	}
}

// begin enters for the whole of Run: the driver stays open for as long.
func (m *Machine) begin() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return ErrClosed
	case m.ran:
		return errors.New("it can be called once")
	}
	m.ran = true
	m.calls++
	return nil
}

func (m *Machine) report(e Event) {
	select {
	case m.events <- e:
	default:
		m.dropped.Add(1)
	}
}

// Close ends Run, waits until no call is in the driver, and lets go of it. When ctx ends
// first, the driver stays loaded, all further calls are refused, and Close may be called again.
func (m *Machine) Close(ctx context.Context) error {
	m.mu.Lock()
	if !m.closed {
		m.closed = true
		close(m.stop)
		if m.calls == 0 {
			close(m.idle)
		}
	}
	m.mu.Unlock()
	if err := m.quiet(ctx); err != nil {
		return err
	}
	m.end.Do(func() { m.endErr = m.driver.close() })
	return m.endErr
}

// quiet waits for the end of all calls; with an ended ctx it asks once.
func (m *Machine) quiet(ctx context.Context) error {
	select {
	case <-m.idle:
		return nil
	default:
	}
	select {
	case <-m.idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close GPUs: a call is in the driver: %w", ctx.Err())
	}
}
