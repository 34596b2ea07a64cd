package kvevent

// notice is what was said of one worker and the loop has not taken yet.
type notice struct {
	forget  bool // before the reports
	reports map[Source]report
}

// report is what is known of a source from elsewhere than its events.
type report struct {
	sequence uint64
	told     bool // by the worker itself
}

// Follow says that a source is there: a member has joined. Unless it is known already its snapshot
// is asked for, so that a worker that is silent is known as well.
func (f *Follower) Follow(s Source) { f.tell(s, report{}) }

// Reported says that a source has told its last number in a load report. It does not wait.
func (f *Follower) Reported(s Source, sequence uint64) { f.tell(s, report{sequence, true}) }

func (f *Follower) tell(s Source, r report) {
	f.inboxMu.Lock()
	defer f.inboxMu.Unlock()
	n := f.noticeOf(s.Worker)
	if n.reports == nil {
		n.reports = make(map[Source]report)
	}
	old := n.reports[s]
	n.reports[s] = report{max(old.sequence, r.sequence), old.told || r.told}
	f.signal()
}

// Forget says that a worker has left: all that it held vanishes. For a minute events of it are taken
// for late ones and change nothing; Follow or Reported makes it known again at once.
func (f *Follower) Forget(worker string) {
	f.inboxMu.Lock()
	defer f.inboxMu.Unlock()
	n := f.noticeOf(worker)
	n.forget, n.reports = true, nil
	f.signal()
}

func (f *Follower) noticeOf(worker string) *notice {
	if f.inbox == nil {
		f.inbox = make(map[string]*notice)
	}
	n := f.inbox[worker]
	if n == nil {
		n = &notice{}
		f.inbox[worker] = n
	}
	return n
}

// takeInbox does what was said. The caller holds mu.
func (f *Follower) takeInbox() {
	f.inboxMu.Lock()
	said := f.inbox
	f.inbox = nil // the next word makes it anew
	f.inboxMu.Unlock()
	for worker, n := range said {
		if n.forget {
			f.depart(worker)
		}
		for source, r := range n.reports {
			f.heard(source, r)
		}
	}
}
