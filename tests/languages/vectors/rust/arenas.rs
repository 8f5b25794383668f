//! Arenas and leases.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::Value;
use tenon::{
    Arena, ArenaOptions, Connection, Message, Pages, StorageOptions, TensorMut, TensorSpec,
};

use crate::{array, known, number, numbers, outcome, same, text, unsigned, wrong, Not, Outcome};

fn compare_stats(arena: &Arena, wanted: &Value) -> Outcome {
    let now = arena.stats()?;
    for (key, value) in wanted.as_object().into_iter().flatten() {
        let got = match key.as_str() {
            "bytes_capacity" => now.bytes_capacity as i64,
            "bytes_reserved" => now.bytes_reserved as i64,
            "bytes_live" => now.bytes_live as i64,
            "bytes_lent" => now.bytes_lent as i64,
            "bytes_free" => now.bytes_free as i64,
            "bytes_largest_free" => now.bytes_largest_free as i64,
            "bytes_retired" => now.bytes_retired as i64,
            "bytes_peak" => now.bytes_peak as i64,
            "blocks_live" => now.blocks_live as i64,
            "blocks_lent" => now.blocks_lent as i64,
            "fragmentation" => now.fragmentation.into(),
            "pages" => match now.pages {
                Pages::Small => 1,
                Pages::Thp => 2,
                Pages::Hugetlb => 3,
                _ => 0,
            },
            "page_nbytes" => now.page_nbytes as i64,
            "numa_node" => now.numa_node.map_or(-1, i64::from),
            "locked" => now.locked.into(),
            _ => return wrong(format!("unknown figure {key}")),
        };
        same(key, got, number(value)?)?;
    }
    Ok(())
}

pub(crate) fn run_arena(case: &Value) -> Outcome {
    let expect = &case["expect"];
    known(expect, &["status", "details", "stats"])?;
    let mut options = ArenaOptions::new()
        .capacity(unsigned(&case["capacity_nbytes"])?)
        .alignment(case["alignment"].as_u64().unwrap_or(0));
    options = match case["mode"].as_str() {
        None | Some("SHARED") => options,
        Some("LENDER_WRITES") => options.lender_writes(),
        _ => return Err(Not::Skip("an ArenaOptions of Rust's has no frozen mode".into())),
    };
    options = options.pages(match case["pages"].as_str() {
        None | Some("AUTO") => Pages::Auto,
        Some("SMALL") => Pages::Small,
        Some("THP") => Pages::Thp,
        Some("HUGETLB") => Pages::Hugetlb,
        _ => return wrong("unknown pages"),
    });
    let arena = match options.create() {
        Ok(arena) => arena,
        Err(error) => return outcome::<()>(expect, Err(error)).map(|_| ()),
    };
    let mut kept = Vec::new();
    let made = (|| {
        if let Some(nbytes) = case["reserve"].as_u64() {
            arena.reserve(nbytes)?;
        }
        for nbytes in array(&case["storages"]).into_iter().flatten().filter_map(Value::as_u64) {
            let mut options = StorageOptions::new().arena(&arena);
            if let Some(timeout) = case["timeout_ms"].as_u64() {
                options = options.wait(Duration::from_millis(timeout));
            }
            kept.push(options.create(nbytes)?);
        }
        Ok(())
    })();
    outcome(expect, made)?;
    compare_stats(&arena, &expect["stats"])
}

pub(crate) fn run_lease(case: &Value) -> Outcome {
    const PATIENCE: Duration = Duration::from_secs(10);
    let expect = &case["expect"];
    known(expect, &["blocks_lent", "bytes_lent", "leases", "nbytes"])?;
    let begin = Instant::now();
    while !tenon::lease_holders()?.is_empty() && begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(1));
    }
    let (capacity, messages) = (unsigned(&case["capacity_nbytes"])?, unsigned(&case["messages"])?);
    let arena = ArenaOptions::new().capacity(capacity).create()?;
    let (one, other) = UnixStream::pair()?;
    let (first, second) = (Connection::from_stream(one)?, Connection::from_stream(other)?);
    let mut message = Message::new()?;
    for nbytes in numbers(&case["lend"])? {
        let storage = StorageOptions::new().arena(&arena).create(nbytes as u64)?;
        let tensor = TensorMut::new(&storage, &TensorSpec::of::<u8>(&[nbytes]))?;
        message.add(None, &tensor)?;
    }
    for _ in 0..messages {
        first.send(&message, PATIENCE)?;
    }
    drop(message);
    let lent = serde_json::json!({
        "blocks_live": 0,
        "blocks_lent": expect["blocks_lent"],
        "bytes_lent": expect["bytes_lent"],
    });
    compare_stats(&arena, &lent)?;
    let holders = tenon::lease_holders()?;
    same("holders", holders.len(), 1)?;
    let (leases, nbytes) = (unsigned(&expect["leases"])?, unsigned(&expect["nbytes"])?);
    same(
        "holder",
        (holders[0].leases, holders[0].nbytes, holders[0].granted, holders[0].granted_bytes),
        (leases, nbytes, leases, nbytes),
    )?;
    same("uid", holders[0].uid, fs::metadata("/proc/self")?.uid())?;
    same("age is 0", holders[0].age.is_zero(), false)?;
    match text(&case["end"])? {
        "receive" => {
            for _ in 0..messages {
                drop(second.recv(PATIENCE)?);
            }
        }
        "close" => drop(second),
        end => return wrong(format!("unknown end {end}")),
    }
    StorageOptions::new().arena(&arena).wait(PATIENCE).create(capacity)?;
    compare_stats(&arena, &serde_json::json!({"blocks_lent": 0}))
}
