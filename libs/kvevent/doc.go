// Package kvevent carries what each worker's cache holds to those who route by it.
//
// A worker numbers every change of what it can find (block.Pool) and publishes the changes
// in batches (Publisher). Batches may be lost, doubled or overtaken on the way; nobody waits for
// them. A Follower puts them in order again by their numbers, one sequence per (worker, rank,
// incarnation), and where some are missing it asks the worker for a snapshot, which says what number
// it covers. What a Follower has found out goes to a Sink, the router's index.
//
// It does not decide what is a hit, and does not keep what it passes on. A Publisher's and a
// Follower's goroutines live within their Run.
package kvevent
