package jinja

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrLimit is wrapped by the error of a template that exceeds its Limits.
var ErrLimit = errors.New("limit of the template exceeded")

// Limits bound one rendering. Zero fields take the defaults, which grow with the size of
// the variables: a long chat may cost more than a short one.
type Limits struct {
	// Steps bounds the work, in nodes of the program evaluated, 16 bytes read, or 64
	// written; a step takes some 20 to 50 ns. By default 400,000, and 24 for each byte of
	// the variables.
	Steps int
	// Memory bounds the bytes of all values ever built, whether still in use or not; by
	// default 6 MiB, and 64 for each byte of the variables.
	Memory int
	// Output bounds the bytes of the text; by default all that Memory allows.
	Output int
	// Depth bounds calls of macros and recursive loops within one another, 64 by default.
	Depth int
	// Time bounds how long it takes, by the clock; by default only the context does.
	Time time.Duration
}

const (
	baseSteps, stepsPerByte   = 400_000, 24
	baseMemory, memoryPerByte = 6 << 20, 64
	defaultDepth              = 64
	maxValueDepth             = 96   // of values within values that are printed or compared
	pollSteps                 = 2000 // between two looks at the context
)

func (l Limits) withDefaults(sizeBytes int) Limits {
	if l.Steps == 0 {
		l.Steps = baseSteps + stepsPerByte*sizeBytes
	}
	if l.Memory == 0 {
		l.Memory = baseMemory + memoryPerByte*sizeBytes
	}
	if l.Depth == 0 {
		l.Depth = defaultDepth
	}
	return l
}

// state is one rendering.
type state struct {
	ctx      context.Context // of the one rendering that the state is made for
	deadline time.Time
	limits   Limits
	steps    int // left
	pollAt   int // look at the context when fewer steps are left
	memory   int // left
	depth    int
	globals  []Value
	out      *builder
	args     []Value // the arguments of calls under way; see pushArgs
}

// step pays for work.
func (st *state) step(n int) error {
	if st.steps -= n; st.steps > st.pollAt {
		return nil
	}
	return st.poll()
}

// scan pays for a look at n bytes. Counting characters is the slowest of it.
func (st *state) scan(n int) error { return st.step(1 + n>>4) }

// alloc pays for n bytes of memory, and for filling them.
func (st *state) alloc(n int) error {
	if st.memory -= n; st.memory < 0 || n < 0 {
		st.memory = -1
		return fmt.Errorf("%w: more than %d bytes of memory", ErrLimit, st.limits.Memory)
	}
	return st.step(1 + n>>6)
}

func (st *state) allocValues(n int) error {
	if n > st.memory/valueBytes {
		return st.alloc(st.memory + 1)
	}
	return st.alloc(n * valueBytes)
}

func (st *state) poll() error {
	if st.steps < 0 {
		st.steps = -1
		return fmt.Errorf("%w: more than %d steps", ErrLimit, st.limits.Steps)
	}
	if st.ctx.Err() != nil {
		return context.Cause(st.ctx)
	}
	if !st.deadline.IsZero() && time.Now().After(st.deadline) {
		return fmt.Errorf("%w: took longer than %s", ErrLimit, st.limits.Time)
	}
	st.pollAt = max(st.steps-pollSteps, 0)
	return nil
}

// enter is the start of a call that may lead to another, leave its end.
func (st *state) enter() error {
	if st.depth++; st.depth > st.limits.Depth {
		return fmt.Errorf("%w: calls nest deeper than %d", ErrLimit, st.limits.Depth)
	}
	return nil
}

func (st *state) leave() { st.depth-- }

func tooDeep() error {
	return fmt.Errorf("%w: a value nests deeper than %d, or holds itself", ErrLimit, maxValueDepth)
}

func limitError(message string) error { return fmt.Errorf("%w: %s", ErrLimit, message) }
