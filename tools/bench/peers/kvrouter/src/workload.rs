//! Reads what prefixtest.Workload.Write wrote.

use std::fs;
use std::io;

pub struct Workload {
    pub workers: u32,
    pub requests: Vec<Request>,
}

pub struct Request {
    pub worker: u32,
    pub answer: u64,
    pub chain: Vec<u64>,
    pub removed: Vec<u64>,
    /// Ranges of the chain.
    pub stored: Vec<(usize, usize)>,
}

/// Adds one worker's leading blocks to an answer, as prefixtest.Digest.
pub fn digest(worker: u64, lead: u32) -> u64 {
    (lead as u64).wrapping_mul(2 * worker + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(io::ErrorKind::UnexpectedEof)?;
        self.0 = rest;
        Ok(*head)
    }

    fn u32(&mut self) -> io::Result<u32> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    fn u64(&mut self) -> io::Result<u64> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn hashes(&mut self, n: u32) -> io::Result<Vec<u64>> {
        (0..n).map(|_| self.u64()).collect()
    }
}

pub fn read(path: &str) -> io::Result<Workload> {
    let bytes = fs::read(path)?;
    let mut c = Cursor(&bytes);
    let (workers, requests) = (c.u32()?, c.u32()?);
    c.u64()?; // the root
    let requests = (0..requests)
        .map(|_| {
            let (worker, blocks, removed, ranges) = (c.u32()?, c.u32()?, c.u32()?, c.u32()?);
            Ok(Request {
                worker,
                answer: c.u64()?,
                chain: c.hashes(blocks)?,
                removed: c.hashes(removed)?,
                stored: (0..ranges)
                    .map(|_| Ok((c.u32()? as usize, c.u32()? as usize)))
                    .collect::<io::Result<_>>()?,
            })
        })
        .collect::<io::Result<_>>()?;
    Ok(Workload { workers, requests })
}
