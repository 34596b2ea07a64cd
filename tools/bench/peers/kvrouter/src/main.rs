//! Plays a workload, written by prefixtest, on the prefix indexes of dynamo-kv-router, and times it as libs/prefix does.

mod index;
mod memory;
mod workload;

use std::env;
use std::time::{Duration, Instant};

use dynamo_kv_router::protocols::{LocalBlockHash, RouterEvent};
use index::{Index, make, removed, stored};
use workload::{Request, Workload, digest, read};

const BATCH: usize = 16;
const PLAYS: usize = 4;

fn main() {
    let mut args = env::args().skip(1);
    let name = args.next().expect("usage: kvrouter radix|crtc|positional [workload [2]]");
    match args.next() {
        Some(path) => {
            let w = read(&path).unwrap_or_else(|e| panic!("read {path}: {e}"));
            match args.next() {
                None => trace(&name, &w),
                Some(_) => two(&name, &w),
            }
        }
        None => {
            depth(&name);
            leave(&name);
        }
    }
}

#[derive(Default, Clone)]
struct Costs {
    lookup: Duration,
    update: Duration,
    batches: Vec<Duration>,
}

fn local(chain: &[u64]) -> Vec<LocalBlockHash> {
    chain.iter().map(|&h| LocalBlockHash(h)).collect()
}

/// The events of a request: what it stores, then what it removes.
fn events(r: &Request) -> Vec<RouterEvent> {
    let worker = r.worker as u64;
    let stores = r.stored.iter().map(|&(from, to)| {
        let parent = (from > 0).then(|| r.chain[from - 1]);
        stored(worker, parent, from, &r.chain[from..to])
    });
    let removes = (!r.removed.is_empty()).then(|| removed(worker, &r.removed));
    stores.chain(removes).collect()
}

fn play(x: &mut dyn Index, w: &Workload, chains: &[Vec<LocalBlockHash>]) -> Costs {
    let mut c = Costs::default();
    for from in (0..w.requests.len()).step_by(BATCH) {
        let to = (from + BATCH).min(w.requests.len());
        let start = Instant::now();
        for chain in &chains[from..to] {
            std::hint::black_box(x.lookup(chain));
        }
        let took = start.elapsed();
        c.lookup += took;
        c.batches.push(took / BATCH as u32);
        // Those of a batch go to the index's thread together, so that waking it is not what is timed.
        let events = w.requests[from..to].iter().flat_map(events).collect();
        let start = Instant::now();
        x.apply(events);
        c.update += start.elapsed();
    }
    c
}

/// Two threads play the requests of the even and the odd workers at once, a batch at a time.
fn two(name: &str, w: &Workload) {
    let mut blocks = 0;
    let mut halves = [Vec::new(), Vec::new()];
    for r in &w.requests {
        blocks += r.chain.len() + r.removed.len() + r.stored.iter().map(|s| s.1 - s.0).sum::<usize>();
        halves[r.worker as usize % 2].push((local(&r.chain), events(r)));
    }
    let mut least = Duration::MAX;
    for _ in 0..PLAYS {
        let plays = halves.clone();
        let ready = std::sync::Barrier::new(3);
        let start = std::thread::scope(|scope| {
            for (mut x, half) in index::pair(name).into_iter().zip(plays) {
                let ready = &ready;
                scope.spawn(move || {
                    let mut batches = Vec::new();
                    let mut rest = half.into_iter().peekable();
                    while rest.peek().is_some() {
                        let (chains, events): (Vec<_>, Vec<_>) = rest.by_ref().take(BATCH).unzip();
                        batches.push((chains, events.into_iter().flatten().collect::<Vec<_>>()));
                    }
                    ready.wait();
                    for (chains, events) in batches {
                        for chain in &chains {
                            std::hint::black_box(x.lookup(chain));
                        }
                        x.apply(events);
                    }
                });
            }
            ready.wait();
            Instant::now()
        });
        least = least.min(start.elapsed());
    }
    println!("{name} w{}: {:.1} blockops-M/s on two cores", w.workers, blocks as f64 / least.as_secs_f64() / 1e6);
}

fn wrong(x: &mut dyn Index, w: &Workload) -> usize {
    let mut wrong = 0;
    for r in &w.requests {
        let scores = x.lookup(&local(&r.chain)).scores;
        let answer = scores.iter().fold(0u64, |a, (k, &n)| a.wrapping_add(digest(k.worker_id, n)));
        wrong += (answer != r.answer) as usize;
        x.apply(events(r));
    }
    wrong
}

fn trace(name: &str, w: &Workload) {
    let wrong = wrong(&mut *make(name), w);
    let chains: Vec<_> = w.requests.iter().map(|r| local(&r.chain)).collect();
    let mut best: Option<Costs> = None;
    for _ in 0..PLAYS {
        let c = play(&mut *make(name), w, &chains);
        best = Some(match best {
            None => c,
            Some(b) => Costs {
                lookup: b.lookup.min(c.lookup),
                update: b.update.min(c.update),
                batches: b.batches.iter().zip(&c.batches).map(|(x, y)| *x.min(y)).collect(),
            },
        });
    }
    let mut c = best.expect("PLAYS is not 0");
    c.batches.sort();
    let blocks: usize = w.requests.iter().map(|r| r.chain.len()).sum();
    let removes: usize = w.requests.iter().map(|r| r.removed.len()).sum();
    let stores: usize = w.requests.iter().flat_map(|r| &r.stored).map(|s| s.1 - s.0).sum();
    let held = memory::counted(|| {
        let mut x = make(name);
        play(&mut *x, w, &chains);
        x
    }) as f64 / (stores - removes) as f64;
    let per = |n: usize, d: Duration| n as f64 / d.as_secs_f64().max(1e-9) / 1e6;
    println!(
        "{name} w{}: {:.0} lookups/s, {:.3} lookup-p99-µs, {:.2} updates-M/s, {:.1} blockops-M/s, {:.1} B/entry, {wrong} wrong",
        w.workers,
        1e6 * per(w.requests.len(), c.lookup),
        micro(c.batches[c.batches.len() * 99 / 100]),
        per(stores + removes, c.update),
        per(blocks + stores + removes, c.lookup + c.update),
        held,
    );
}

fn micro(d: Duration) -> f64 {
    d.as_secs_f64() * 1e6
}

/// Numbers that look random.
fn numbers(seed: u64) -> impl Iterator<Item = u64> {
    (1..).map(move |i: u64| {
        let x = (i ^ seed << 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (x ^ x >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
    })
}

/// 64 workers have parts of one chain of different lengths.
fn depth(name: &str) {
    for n in [128, 1000, 4000] {
        let mut x = make(name);
        let chain: Vec<u64> = numbers(1).take(n).collect();
        for w in 0..64 {
            x.apply(vec![stored(w as u64, None, 0, &chain[..n * (w + 1) / 64])]);
        }
        let chain = local(&chain);
        let mut took: Vec<_> = (0..20_000)
            .map(|_| {
                let start = Instant::now();
                for _ in 0..4 {
                    std::hint::black_box(x.lookup(&chain));
                }
                start.elapsed() / 4
            })
            .collect();
        took.sort();
        println!("{name} depth {n}: {:.3} p50-µs, {:.3} p99-µs", micro(took[took.len() / 2]), micro(took[took.len() * 99 / 100]));
    }
}

/// One of 64 workers with 32,000 blocks each leaves.
fn leave(name: &str) {
    let mut x = make(name);
    let trunk: Vec<u64> = numbers(1).take(1000).collect();
    let fill = |x: &mut dyn Index, w: u64, seed: u64| {
        let mut events = vec![stored(w, None, 0, &trunk)];
        let mut hashes = numbers(seed);
        for _ in 0..124 {
            let chain: Vec<u64> = hashes.by_ref().take(250).collect();
            events.push(stored(w, trunk.last().copied(), trunk.len(), &chain));
        }
        x.apply(events);
    };
    for w in 0..64 {
        fill(&mut *x, w, w + 2);
    }
    let mut took: Vec<_> = (0..50)
        .map(|i| {
            let start = Instant::now();
            x.remove_worker(3);
            let took = start.elapsed();
            fill(&mut *x, 3, 100 + i);
            took
        })
        .collect();
    took.sort();
    println!("{name} leave: {:.0} drop-µs (median)", micro(took[took.len() / 2]));
}
