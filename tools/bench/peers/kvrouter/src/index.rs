//! The indexes under one interface.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use dynamo_kv_router::indexer::{SyncIndexer, WorkerTask};
use dynamo_kv_router::protocols::*;
use dynamo_kv_router::{ConcurrentRadixTreeCompressed, PositionalIndexer, RadixTree};
use tokio::sync::oneshot;

pub trait Index {
    fn lookup(&self, chain: &[LocalBlockHash]) -> OverlapScores;
    /// Returns when all events count.
    fn apply(&mut self, events: Vec<RouterEvent>);
    fn remove_worker(&mut self, worker: u64);
}

pub fn make(name: &str) -> Box<dyn Index> {
    match name {
        "radix" => Box::new(Tree(RadixTree::new())),
        "crtc" => Box::new(Shared::new(ConcurrentRadixTreeCompressed::new())),
        "positional" => Box::new(Shared::new(PositionalIndexer::new(32))),
        _ => panic!("index {name}: expected radix, crtc or positional"),
    }
}

/// One concurrent index for two players, each with a thread for its events.
pub fn pair(name: &str) -> [Box<dyn Index + Send>; 2] {
    match name {
        "crtc" => {
            let index = Arc::new(ConcurrentRadixTreeCompressed::new());
            [Box::new(Shared::over(index.clone())), Box::new(Shared::over(index))]
        }
        _ => panic!("index {name}: expected crtc"),
    }
}

struct Tree(RadixTree);

impl Index for Tree {
    fn lookup(&self, chain: &[LocalBlockHash]) -> OverlapScores {
        self.0.find_matches(chain.to_vec(), false)
    }

    fn apply(&mut self, events: Vec<RouterEvent>) {
        for e in events {
            let _ = self.0.apply_event(e); // answers are verified instead
        }
    }

    fn remove_worker(&mut self, worker: u64) {
        self.0.remove_worker(worker);
    }
}

/// A concurrent index and the thread that applies its events, as the crate has it.
struct Shared<T: SyncIndexer> {
    index: Arc<T>,
    tasks: flume::Sender<WorkerTask>,
    thread: Option<JoinHandle<()>>,
}

impl<T: SyncIndexer> Shared<T> {
    fn new(index: T) -> Self {
        Self::over(Arc::new(index))
    }

    fn over(index: Arc<T>) -> Self {
        let (tasks, received) = flume::unbounded();
        let writer = index.clone();
        let thread = thread::spawn(move || writer.worker(received, None).expect("worker"));
        Self { index, tasks, thread: Some(thread) }
    }
}

impl<T: SyncIndexer> Index for Shared<T> {
    fn lookup(&self, chain: &[LocalBlockHash]) -> OverlapScores {
        self.index.find_matches(chain, false)
    }

    fn apply(&mut self, mut events: Vec<RouterEvent>) {
        let Some(last) = events.pop() else { return };
        for e in events {
            self.tasks.send(WorkerTask::Event(e)).expect("its thread ended");
        }
        let (resp, done) = oneshot::channel();
        self.tasks.send(WorkerTask::EventWithAck { event: last, resp }).expect("its thread ended");
        done.blocking_recv().expect("its thread ended");
    }

    fn remove_worker(&mut self, worker_id: u64) {
        let (resp, done) = oneshot::channel();
        let task = WorkerTask::RemoveWorker { worker_id, sweep_tree: true, resp };
        self.tasks.send(task).expect("its thread ended");
        done.blocking_recv().expect("its thread ended");
    }
}

impl<T: SyncIndexer> Drop for Shared<T> {
    fn drop(&mut self) {
        let _ = self.tasks.send(WorkerTask::Terminate);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub fn stored(worker: u64, parent: Option<u64>, position: usize, chain: &[u64]) -> RouterEvent {
    let blocks = chain
        .iter()
        .map(|&h| KvCacheStoredBlockData {
            block_hash: ExternalSequenceBlockHash(h),
            tokens_hash: LocalBlockHash(h),
            mm_extra_info: None,
        })
        .collect();
    event(
        worker,
        KvCacheEventData::Stored(KvCacheStoreData {
            parent_hash: parent.map(ExternalSequenceBlockHash),
            start_position: Some(position as u32),
            blocks,
        }),
    )
}

pub fn removed(worker: u64, hashes: &[u64]) -> RouterEvent {
    let block_hashes = hashes.iter().map(|&h| ExternalSequenceBlockHash(h)).collect();
    event(worker, KvCacheEventData::Removed(KvCacheRemoveData { block_hashes }))
}

fn event(worker: u64, data: KvCacheEventData) -> RouterEvent {
    RouterEvent::new(worker, KvCacheEvent { event_id: 0, data, dp_rank: 0 })
}
