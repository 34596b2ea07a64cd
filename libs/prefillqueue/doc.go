// Package prefillqueue carries prefill jobs from decode workers to prefill workers, over
// a work queue of NATS JetStream.
//
// All jobs live in one stream in memory. Each pool, KV format and priority class has its
// own subject and consumer, so that a worker gets only jobs it can do; a Queue is one of
// them. A job is delivered until it is acknowledged, deleted or past its deadline, and the
// bound of a queue counts the jobs in work, too. Beside each queue that all workers take from,
// every worker has one of jobs that are kept for it (Config.Worker, PublishFor).
//
// Nothing here is a guarantee. A NATS that restarts has lost all jobs, and whoever meets
// the missing stream makes it anew; a job may be delivered twice; a publish that timed out
// may still land. The decode worker's own deadline is what counts, and work is idempotent
// by transfer id. What a job means, and whether it is still wanted, is not decided here.
//
// No method leaves a goroutine behind; those of the NATS connection are its owner's.
package prefillqueue
