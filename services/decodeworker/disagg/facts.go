package disagg

import "time"

// Facts are what is known when a sequence has its blocks.
type Facts struct {
	// PromptTokens is the length of what must be in the cache before decoding.
	PromptTokens int
	// CachedTokens of them are resident on the decode worker.
	CachedTokens int
	// OfferedTokens is how long a prefix a prefill worker may read at least; what is cached
	// beyond that it may have to compute.
	OfferedTokens int
	// RowBytes is the size of one token's keys and values.
	RowBytes int

	// OnTrial says that a worker died with the sequence, so that no other may be given it.
	OnTrial bool
	// PrefillWorkers is how many live ones could take the job.
	PrefillWorkers int
	// Queue is the prefill queue; always and never do not look at it.
	Queue Queue
	// Deadline is how long the sequence would wait for its remote prefill; 0 is for ever.
	Deadline time.Duration

	// AheadTokens are rows of other prompts that are computed here first.
	AheadTokens int
	// Decoding is how many sequences get a token from each step here.
	Decoding int
	// StepTokens is how many tokens a step computes at most.
	StepTokens int

	// Speeds are what both ways were measured to take.
	Speeds Speeds
	// SinceExplored is how many decisions were made by Cost since one explored.
	SinceExplored int
}

// Queue is the state of the prefill queue.
type Queue struct {
	// Known is false when it could not be asked.
	Known bool
	// Waiting jobs were taken by nobody yet; Working ones are in work.
	Waiting, Working int
	// Oldest is how long the first of the waiting jobs has waited.
	Oldest time.Duration
}

// Speeds are times of the two ways.
type Speeds struct {
	// LocalToken and RemoteToken are for one prompt row, beside what each step costs.
	LocalToken, RemoteToken time.Duration
	// Step is for a step, StepSequence for each sequence that decodes in it, with the tokens that one
	// attends to at present.
	Step, StepSequence time.Duration
	// LocalOverhead is what a local prefill takes beside its steps.
	LocalOverhead time.Duration
	// RemoteOverhead is what a hand-off takes beside waiting, admission, computing and
	// writing: the queue's round trips, the claim, the note.
	RemoteOverhead time.Duration
	// Admission is from the claim until the engine begins, without the reading of a prefix.
	Admission time.Duration
	// Job is how long one job keeps a prefill worker.
	Job time.Duration
	// LinkBytesPerSecond is the bandwidth between the memories, and LinkLatency what each
	// transfer takes beside its bytes.
	LinkBytesPerSecond float64
	LinkLatency        time.Duration
	// WriteTail is the share of the writing that is left once all is computed.
	WriteTail float64
}

// uncached is how many rows a local prefill computes and a remote one writes.
func (f *Facts) uncached() int { return f.PromptTokens - f.CachedTokens }

// readable is how many rows a prefill worker can have without computing them, at least.
func (f *Facts) readable() int { return min(f.CachedTokens, f.OfferedTokens) }
