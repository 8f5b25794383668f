//! Four workers use one copy of a model's weights. The first that opens the name loads the file,
//! and the others map the same memory. The worker that loaded is then killed, and a fifth one
//! attaches all the same.
//!
//! usage: weights_once [FILE DIRECTORY], where with arguments it is a worker, and an empty FILE
//! only attaches
//! attaches

use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::{env, fs, process};

use tenon::{SharedWeights, SharedWeightsOptions, Wait};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const FLOATS: usize = 4_000_000;

/// A safetensors file of one tensor, as a model's weights come from a hub.
fn write_file(path: &Path) -> io::Result<()> {
    let header = format!(
        r#"{{"layer.weight":{{"dtype":"F32","shape":[{FLOATS}],"data_offsets":[0,{}]}}}}"#,
        4 * FLOATS
    );
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(2.5f32.to_le_bytes().repeat(FLOATS));
    fs::write(path, file)
}

/// This process's share, in KiB, of the pages of the mapping at an address.
fn pss_kib(address: usize) -> Result<u64> {
    let mut is_here = false;
    for line in fs::read_to_string("/proc/self/smaps")?.lines() {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or_default();
        if let Some((begin, end)) = first.split_once('-') {
            let place = |text| usize::from_str_radix(text, 16);
            is_here = place(begin)? <= address && address < place(end)?;
        } else if is_here && first == "Pss:" {
            return Ok(words.next().unwrap_or_default().parse()?);
        }
    }
    Ok(0)
}

fn work(file: &str, directory: &str) -> Result<()> {
    let options = SharedWeightsOptions::new().directory(directory)?;
    let weights = if file.is_empty() {
        SharedWeights::attach("model", &options, Wait::FOREVER)?
    } else {
        SharedWeights::open(file, "model", &options, Wait::FOREVER)?
    };
    let tensor = weights.tensor("layer.weight")?.to_tensor()?;
    let elements = tensor.cells::<f32>()?;
    let sum: f64 = elements.iter().map(|each| f64::from(each.get())).sum();
    println!("{} {sum:.0}", u8::from(weights.info()?.loaded));
    io::stdin().read_line(&mut String::new())?; // until all workers have read all weights
    println!("{}", pss_kib(elements.as_ptr() as usize)?);
    io::stdin().read_to_end(&mut Vec::new())?; // a worker would serve requests now
    Ok(())
}

/// Another process of this program.
struct Worker {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Worker {
    fn start(file: &Path, directory: &Path) -> Result<Worker> {
        let mut process = Command::new(env::current_exe()?)
            .args([file, directory])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = BufReader::new(process.stdout.take().ok_or("no output")?);
        Ok(Worker { process, output })
    }

    /// Says something to the worker, and gives the numbers of its answer.
    fn ask(&mut self, say: &str) -> Result<Vec<u64>> {
        self.process.stdin.as_mut().ok_or("no input")?.write_all(say.as_bytes())?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.split_whitespace().map(str::parse).collect::<std::result::Result<_, _>>()?)
    }
}

fn run() -> Result<()> {
    let folder = env::temp_dir().join(format!("tenon-weights-once-{}", process::id()));
    fs::create_dir(&folder)?;
    let file = folder.join("model.safetensors");
    write_file(&file)?;
    let mut workers =
        (0..4).map(|_| Worker::start(&file, &folder)).collect::<Result<Vec<Worker>>>()?;
    let (mut loads, mut loader, mut sum, mut pss) = (0, 0, 0, 0);
    for (at, worker) in workers.iter_mut().enumerate() {
        let answer = worker.ask("")?;
        let [loaded, read] = answer[..] else { return Err("a worker has failed".into()) };
        (loads, sum) = (loads + loaded, read);
        if loaded == 1 {
            loader = at;
        }
    }
    println!("4 workers read {sum}, and {loads} of them loaded the file");
    for worker in &mut workers {
        pss += worker.ask("\n")?.iter().sum::<u64>();
    }
    let size = fs::metadata(&file)?.len() >> 10;
    println!("the file has {size} KiB, and all workers together {pss} KiB");
    workers[loader].process.kill()?;
    fs::remove_file(&file)?;
    workers.push(Worker::start(Path::new(""), &folder)?); // without a file: it can only attach
    let answer = workers[4].ask("")?;
    println!("the loader was killed, and a new worker reads {}", answer.last().unwrap_or(&0));
    for worker in &mut workers {
        drop(worker.process.stdin.take());
        worker.process.wait()?;
    }
    fs::remove_dir_all(&folder)?;
    Ok(())
}

fn main() -> Result<()> {
    match &env::args().collect::<Vec<_>>()[..] {
        [_, file, directory] => work(file, directory),
        _ => run(),
    }
}
