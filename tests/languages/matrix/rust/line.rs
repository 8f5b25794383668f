//! The words of the driver's lines, and the pattern.

use std::fmt;

use tenon::DType;

/// An answer other than ok.
pub enum Refused {
    Error { status: String, text: String },
    Skip(&'static str),
}

pub type Outcome<T = String> = Result<T, Refused>;

pub fn other<T>(text: impl Into<String>) -> Outcome<T> {
    Err(Refused::Error { status: "OTHER".into(), text: text.into() })
}

impl From<tenon::Error> for Refused {
    fn from(error: tenon::Error) -> Refused {
        Refused::Error { status: error.kind().code_name().into(), text: error.to_string() }
    }
}

impl From<std::io::Error> for Refused {
    fn from(error: std::io::Error) -> Refused {
        Refused::Error { status: "OTHER".into(), text: error.to_string() }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Error { status, text } => {
                write!(f, "error {status} {}", text.replace('\n', " "))
            }
            Refused::Skip(reason) => write!(f, "skip {reason}"),
        }
    }
}

pub fn number<T: std::str::FromStr>(word: &str) -> Outcome<T> {
    word.parse().map_or_else(|_| other(format!("{word} is no number of that kind")), Ok)
}

pub fn numbers(word: &str) -> Outcome<Vec<i64>> {
    if word == "-" {
        return Ok(Vec::new());
    }
    word.split(',').map(number).collect()
}

pub fn word_of(numbers: &[i64]) -> String {
    or_dash(numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(","))
}

pub fn or_dash(text: String) -> String {
    if text.is_empty() {
        "-".into()
    } else {
        text
    }
}

pub fn dtype(word: &str) -> Outcome<DType> {
    match word.split(':').collect::<Vec<_>>().as_slice() {
        [code, bits, lanes] => {
            Ok(DType { code: number(code)?, bits: number(bits)?, lanes: number(lanes)? })
        }
        _ => other(format!("{word} is no dtype")),
    }
}

pub fn dtype_word(dtype: DType) -> String {
    format!("{}:{}:{}", dtype.code, dtype.bits, dtype.lanes)
}

pub fn hex_of(bytes: &[u8]) -> String {
    or_dash(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

pub fn bytes_of(hex: &str) -> Outcome<Vec<u8>> {
    if hex.len() % 2 != 0 || !hex.is_ascii() {
        return other("no hexadecimal bytes");
    }
    (0..hex.len())
        .step_by(2)
        .map(|at| {
            u8::from_str_radix(&hex[at..at + 2], 16).or_else(|_| other("no hexadecimal bytes"))
        })
        .collect()
}

pub fn pattern(seed: usize, nbytes: usize) -> Vec<u8> {
    (0..nbytes).map(|i| (seed * 31 + i * 7 + i / 256) as u8).collect()
}
