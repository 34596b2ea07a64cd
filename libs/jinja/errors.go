package jinja

import (
	"errors"
	"fmt"
)

// Error is an error of a template, with the line that it happened in.
type Error struct {
	Line int
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// atLine adds the line unless an inner statement has done so.
func atLine(line int, err error) error {
	var inner *Error
	if err == nil || errors.As(err, &inner) {
		return err
	}
	return &Error{line, err}
}

// pythonError is an error as Python would raise it.
type pythonError struct{ class, message string }

func (e *pythonError) Error() string { return e.class + ": " + e.message }

func typeError(message string) error  { return &pythonError{"TypeError", message} }
func valueError(message string) error { return &pythonError{"ValueError", message} }

func typeErrorf(format string, args ...any) error  { return typeError(fmt.Sprintf(format, args...)) }
func valueErrorf(format string, args ...any) error { return valueError(fmt.Sprintf(format, args...)) }

// useOf is the error of an operation on an undefined value.
func useOf(v Value) error {
	u, ok := v.ref.(*undefined)
	switch {
	case !ok:
		return &pythonError{"UndefinedError", "value is undefined"}
	case u.unsafe:
		return &pythonError{"SecurityError", u.message()}
	}
	return &pythonError{"UndefinedError", u.message()}
}
