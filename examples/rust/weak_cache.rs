//! A cache that does not keep its storages alive. It holds weak references, and makes a storage
//! again after its last user has released it.

use std::collections::HashMap;

use tenon::{Result, Storage, StorageOptions, WeakStorage};

#[derive(Default)]
struct Cache(HashMap<usize, WeakStorage>);

impl Cache {
    fn get(&mut self, entry: usize) -> Result<Storage> {
        if let Some(storage) = self.0.get(&entry).and_then(WeakStorage::upgrade) {
            println!("entry {entry}: found");
            return Ok(storage);
        }
        println!("entry {entry}: made");
        let storage =
            StorageOptions::new().copy_frozen(format!("this is entry {entry}").as_bytes())?;
        self.0.insert(entry, storage.downgrade()?);
        Ok(storage)
    }

    fn is_expired(&self, entry: usize) -> bool {
        self.0.get(&entry).map_or(true, WeakStorage::is_expired)
    }
}

fn yes_or_no(answer: bool) -> &'static str {
    if answer {
        "yes"
    } else {
        "no"
    }
}

fn main() -> Result<()> {
    let mut cache = Cache::default();
    let (first, second) = (cache.get(1)?, cache.get(1)?);
    let text = String::from_utf8_lossy(first.as_bytes()?).into_owned();
    println!("{text}: the same storage: {}", yes_or_no(first.id() == second.id()));
    drop((first, second));
    println!("expired after the last release: {}", yes_or_no(cache.is_expired(1)));
    cache.get(1)?;
    Ok(())
}
