// Package block manages the blocks of a worker's KV cache: what a block looks like
// (Layout), where its bytes lie (Memory) and who may write or share it (Pool).
//
// A one-sided write cannot check who owns its target, so the pool gives every block
// a state, an owner and a generation:
//
//	FREE ── Extend ──→ OPEN: the growing tail of a sequence, written by its own engine
//	FREE ── Reserve ─→ RESERVED ── Claim ──→ CLAIMED: one remote writer, under a lease
//	CLAIMED ─ Commit ─→ SEALED (full blocks) or OPEN (the last, partial one)
//	OPEN ── full ────→ SEALED: immutable, hashed, shared, evictable → FREE
//	                   SEALED is HELD while a remote reader may read it
//	CLAIMED ─ Abort, Expire, Withdraw ─→ QUARANTINE ── Settle ──→ FREE
//
// A block leaves QUARANTINE only on proof that nobody can still write it; time alone
// is no proof. The pool decides and counts, it moves no bytes: it does no I/O, has no
// clock (time is passed in), logs nothing and starts no goroutine. One mutex guards
// a pool, its tables and its transfers, so every method may be called from any
// goroutine; the order of calls on one Table is its owner's business.
package block
