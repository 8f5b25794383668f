//! One way from process to process by iceoryx2's publish-subscribe, in nanoseconds.
//!
//! usage: iceoryx2_pair ROUNDS PREFIX
//!
//! Two processes, each pinned to a CPU of its own, hand one message to and fro, and both poll. The
//! program prints one line of JSON with a list of ROUNDS samples for each kind of message, and
//! a list "bare" of the same for a number in two words of shared memory. tests/bench/queue.cc with
//! --samples does the same by Tenon. The names of iceoryx2's files in /dev/shm begin with PREFIX.
//! Some of those files stay behind, so the caller removes them.

use std::error::Error;
use std::fmt::Debug;
use std::hint::{black_box, spin_loop};
use std::mem::{size_of, zeroed};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;

const EACH: usize = 20; // round trips of one sample
const NBYTES: usize = 4096;
const KINDS: [&str; 3] = ["record", "tensor", "filled"];

type Outcome<T> = Result<T, Box<dyn Error>>;
type Record = [u64; 8];

#[repr(align(64))]
struct Line<T>(T);

/// The memory that both processes have by fork.
struct Shared {
    there: Line<AtomicU64>,
    back: Line<AtomicU64>,
    ready: Line<AtomicU32>,
}

impl Shared {
    fn new() -> &'static Shared {
        // SAFETY: the mapping is new, zeroed and never removed. Each field may be zero.
        unsafe {
            let memory = libc::mmap(
                null_mut(),
                size_of::<Shared>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(memory, libc::MAP_FAILED);
            &*memory.cast::<Shared>()
        }
    }

    /// Waits until both processes have called this function.
    fn meet(&self) {
        self.ready.0.fetch_add(1, Ordering::SeqCst);
        while self.ready.0.load(Ordering::SeqCst) < 2 {
            std::thread::yield_now();
        }
    }
}

/// Pins this process to one of the CPUs that it may use.
fn pin(index: usize) {
    // SAFETY: the sets are local and of the size that the calls are told.
    unsafe {
        let mut all: libc::cpu_set_t = zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut all), 0);
        let mut cpus = (0..libc::CPU_SETSIZE as usize).filter(|&cpu| libc::CPU_ISSET(cpu, &all));
        let Some(cpu) = cpus.nth(index) else { return };
        let mut one: libc::cpu_set_t = zeroed();
        libc::CPU_SET(cpu, &mut one);
        assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &one), 0);
    }
}

/// One process's end of two services, one for each direction.
struct End<T: ?Sized + Debug + IceoryxSend + 'static> {
    to: Publisher<ipc::Service, T, ()>,
    from: Subscriber<ipc::Service, T, ()>,
}

impl End<Record> {
    fn new(node: &Node<ipc::Service>, to: &str, from: &str) -> Outcome<Self> {
        let service = |name: &str| -> Outcome<_> {
            let builder = node.service_builder(&name.try_into()?);
            Ok(builder.publish_subscribe::<Record>().open_or_create()?)
        };
        let to = service(&format!("record/{to}"))?.publisher_builder().create()?;
        let from = service(&format!("record/{from}"))?.subscriber_builder().create()?;
        Ok(End { to, from })
    }

    fn send(&self, number: u64) -> Outcome<()> {
        self.to.loan_uninit()?.write_payload([number; 8]).send()?;
        Ok(())
    }

    fn receive(&self) -> Outcome<()> {
        loop {
            if let Some(sample) = self.from.receive()? {
                black_box(sample[0]);
                return Ok(());
            }
            spin_loop();
        }
    }
}

impl End<[u8]> {
    fn new(node: &Node<ipc::Service>, to: &str, from: &str) -> Outcome<Self> {
        let service = |name: &str| -> Outcome<_> {
            let builder = node.service_builder(&name.try_into()?);
            Ok(builder.publish_subscribe::<[u8]>().open_or_create()?)
        };
        let to = service(&format!("tensor/{to}"))?;
        let to = to.publisher_builder().initial_max_slice_len(NBYTES).create()?;
        let from = service(&format!("tensor/{from}"))?.subscriber_builder().create()?;
        Ok(End { to, from })
    }

    /// Sends a loaned payload of which the first byte is written, or each byte.
    fn send(&self, is_filled: bool) -> Outcome<()> {
        let mut sample = self.to.loan_slice_uninit(NBYTES)?;
        for byte in &mut sample.payload_mut()[..if is_filled { NBYTES } else { 1 }] {
            byte.write(1);
        }
        // SAFETY: the receiver reads the first byte only.
        unsafe { sample.assume_init() }.send()?;
        Ok(())
    }

    fn receive(&self) -> Outcome<()> {
        loop {
            if let Some(sample) = self.from.receive()? {
                black_box(sample[0]);
                return Ok(());
            }
            spin_loop();
        }
    }
}

/// The ends of one process for all kinds of messages.
struct Ends {
    record: End<Record>,
    tensor: End<[u8]>,
}

impl Ends {
    fn new(node: &Node<ipc::Service>, to: &str, from: &str) -> Outcome<Self> {
        Ok(Ends {
            record: End::<Record>::new(node, to, from)?,
            tensor: End::<[u8]>::new(node, to, from)?,
        })
    }

    fn send(&self, kind: &str, number: u64) -> Outcome<()> {
        match kind {
            "record" => self.record.send(number),
            kind => self.tensor.send(kind == "filled"),
        }
    }

    fn receive(&self, kind: &str) -> Outcome<()> {
        match kind {
            "record" => self.record.receive(),
            _ => self.tensor.receive(),
        }
    }
}

fn new_node(prefix: &str) -> Outcome<Node<ipc::Service>> {
    // Everything of this run lies in a folder of its own and has a prefix of its own.
    let mut config = Config::default();
    let folder = std::env::var("TMPDIR").unwrap_or("/tmp".to_string()) + "/iceoryx2";
    config.global.set_root_path(&Path::new(folder.as_bytes())?);
    config.global.prefix = FileName::new(prefix.as_bytes())?;
    Ok(NodeBuilder::new().config(&config).create::<ipc::Service>()?)
}

/// Waits for the messages of the other process and answers each.
fn answer(prefix: &str, shared: &Shared, total: usize) -> Outcome<()> {
    let node = new_node(prefix)?;
    let ends = Ends::new(&node, "back", "there")?;
    shared.meet();
    let mut number = 0;
    for _ in 0..total {
        for kind in KINDS {
            for _ in 0..EACH {
                ends.receive(kind)?;
                ends.send(kind, number)?;
            }
        }
        for _ in 0..EACH {
            number += 1;
            while shared.there.0.load(Ordering::Acquire) != number {}
            shared.back.0.store(number, Ordering::Release);
        }
    }
    Ok(())
}

fn measure(prefix: &str, shared: &Shared, rounds: usize, warm_up: usize) -> Outcome<Vec<Vec<f64>>> {
    let node = new_node(prefix)?;
    let ends = Ends::new(&node, "there", "back")?;
    shared.meet();
    let mut samples = vec![Vec::new(); KINDS.len() + 1];
    let mut number = 0;
    for round in 0..rounds + warm_up {
        let mut taken = Vec::new();
        for kind in KINDS {
            let begin = Instant::now();
            for _ in 0..EACH {
                ends.send(kind, number)?;
                ends.receive(kind)?;
            }
            taken.push(begin.elapsed());
        }
        let begin = Instant::now();
        for _ in 0..EACH {
            number += 1;
            shared.there.0.store(number, Ordering::Release);
            while shared.back.0.load(Ordering::Acquire) != number {}
        }
        taken.push(begin.elapsed());
        if round < warm_up {
            continue;
        }
        for (each, time) in samples.iter_mut().zip(taken) {
            each.push(time.as_nanos() as f64 / (2 * EACH) as f64);
        }
    }
    Ok(samples)
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, rounds, prefix] = arguments.as_slice() else {
        return Err("usage: iceoryx2_pair ROUNDS PREFIX".into());
    };
    let rounds: usize = rounds.parse()?;
    let warm_up = rounds / 10 + 1;
    set_log_level(LogLevel::Error);
    let shared = Shared::new();
    // SAFETY: this process has one thread, so the child may do whatever it likes.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork failed");
    if child == 0 {
        // SAFETY: the call changes nothing but what happens at the death of the parent.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        pin(1);
        return answer(prefix, shared, rounds + warm_up);
    }
    pin(0);
    let samples = measure(prefix, shared, rounds, warm_up)?;
    let mut status = 0;
    // SAFETY: `status` is local.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    if status != 0 {
        return Err("the other process failed".into());
    }
    let names = KINDS.iter().chain(&["bare"]);
    let lists = names.zip(&samples).map(|(name, list)| format!("\"{name}\": {list:.1?}"));
    println!("{{{}}}", lists.collect::<Vec<_>>().join(", "));
    Ok(())
}
