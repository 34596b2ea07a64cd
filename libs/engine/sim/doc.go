// Package sim is an engine that takes the time of a GPU engine and computes nothing: its
// scheduler, block pool, prefix cache and hand-off are the real ones, only the duration of a
// step is modelled (package timing).
//
// What it keeps in a block is small but real: each row holds its token and the state of a
// chain over all tokens before it, and the next token is drawn from that state. A block that
// is wrong, stale or was never moved is an error, or changes every later token, and Answer
// says what the right ones are. A row is checked once, when the executor first meets it, so
// that decoding costs the same at any length.
//
// It does not move blocks and owns no goroutine; a step waits in the caller's.
package sim
