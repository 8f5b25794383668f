//! usage: matrix_peer produce|consume. The Rust wrapper in the matrix
//! (tests/languages/matrix/README.md).

mod composite;
#[path = "../../composite_parts.rs"]
mod composite_parts;
mod cuda;
mod device;
mod line;
mod object;
mod peer;
mod raw;

use std::io::{stdin, stdout, BufRead, Write};

use peer::Peer;

fn main() {
    let answer = |text: &str| {
        println!("{}", text.trim_end());
        // If this fails, the driver is gone, and the pipe ends too.
        let _ = stdout().flush();
    };
    let mut peer = Peer::default();
    answer("ready");
    for line in stdin().lock().lines() {
        let Ok(line) = line else { break };
        let words: Vec<&str> = line.split_whitespace().collect();
        match peer.act(&words) {
            Ok(text) => answer(&format!("ok {text}")),
            Err(refused) => answer(&refused.to_string()),
        }
        if words == ["quit"] {
            break;
        }
    }
}
