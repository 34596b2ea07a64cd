//go:build cgo && linux

package capi

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm lets a goroutine sleep for microseconds, or until it is rung. Go's timers are exact to
// a millisecond when nothing else runs, and a sleep in C would keep the processor from
// other goroutines.
type alarm struct {
	fd   int
	file *os.File // of fd, for the runtime's poller
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create a timer: %w", err)
	}
	return &alarm{fd, os.NewFile(uintptr(fd), "timerfd")}, nil
}

// set has the next sleep end after d.
func (a *alarm) set(d time.Duration) error {
	return unix.TimerfdSettime(a.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(max(1, d.Nanoseconds()))}, nil)
}

// sleep waits for d, or until set is called by another goroutine with a shorter time.
func (a *alarm) sleep(d time.Duration) error {
	if err := a.set(d); err != nil {
		return err
	}
	var count [8]byte
	_, err := a.file.Read(count[:])
	if errors.Is(err, unix.EAGAIN) { // set anew in between
		return nil
	}
	return err
}

func (a *alarm) close() error { return a.file.Close() }
