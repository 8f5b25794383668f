//! Objects as the driver's words describe them (tests/languages/matrix/README.md, "Objects").

use tenon::{Composite, Object, Tensor};

use crate::line::{bytes_of, dtype_word, hex_of, number, other, word_of, Outcome};

/// What an object contains beside plain values.
pub enum Part<'a> {
    Tensor(&'a Tensor),
    Composite(&'a Composite),
}

fn real(digits: &str) -> Outcome<f64> {
    u64::from_str_radix(digits, 16)
        .map_or_else(|_| other(format!("{digits} is no float")), |bits| Ok(f64::from_bits(bits)))
}

fn real_word(number: f64) -> String {
    format!("{:016x}", number.to_bits())
}

fn bytes(hex: &str) -> Outcome<Vec<u8>> {
    bytes_of(hex.trim_start_matches('-'))
}

/// Reads the next node with everything inside it. `find` gives the tensor (true) or the composite
/// (false) of a key.
pub fn read<'w>(
    nodes: &mut impl Iterator<Item = &'w str>,
    find: &impl Fn(&str, bool) -> Outcome<Object>,
) -> Outcome<Object> {
    let node = nodes.next().unwrap_or_default();
    let (Some(letter), Some(word)) = (node.get(..1), node.get(1..)) else {
        return other("the object lacks a node");
    };
    let mut items =
        |count: usize| (0..count).map(|_| read(nodes, find)).collect::<Outcome<Vec<Object>>>();
    Ok(match letter {
        "N" => Object::None,
        "T" | "F" => Object::Bool(letter == "T"),
        "i" => Object::Int(number(word)?),
        "f" => Object::Float(real(word)?),
        "c" => {
            let Some((re, im)) = word.split_once(',') else {
                return other(format!("{word} is no complex number"));
            };
            Object::Complex(real(re)?, real(im)?)
        }
        "s" => {
            Object::Str(String::from_utf8(bytes(word)?).or_else(|_| other("a text is not UTF-8"))?)
        }
        "b" => Object::Bytes(bytes(word)?),
        "x" | "k" => find(word, letter == "x")?,
        "t" => Object::Tuple(items(number(word)?)?),
        "l" => Object::List(items(number(word)?)?),
        "S" => Object::Set(items(number(word)?)?),
        "d" => {
            let count: usize = number(word)?;
            let mut both = items(2 * count)?.into_iter();
            Object::Dict(std::iter::from_fn(|| Some((both.next()?, both.next()?))).collect())
        }
        _ => return other(format!("no node begins with {letter}")),
    })
}

/// The words of a tensor, which stand behind its key.
pub fn tensor_word(tensor: &Tensor, content: impl Fn(&Tensor) -> Outcome<Vec<u8>>) -> Outcome {
    Ok(format!(
        "{}/{}/{}/{}/{}/{}",
        tensor.storage().id(),
        dtype_word(tensor.dtype()),
        word_of(tensor.sizes()),
        word_of(tensor.strides()),
        tensor.offset(),
        hex_of(&content(tensor)?)
    ))
}

/// The word of an object. `part` holds a part, and gives its node's words behind the letter.
pub fn word(object: &Object, part: &mut impl FnMut(Part) -> Outcome) -> Outcome {
    let mut container =
        |letter: &str, count: usize, inside: &mut dyn Iterator<Item = &Object>| -> Outcome {
            let mut said = format!("{letter}{count}");
            for each in inside {
                said += ";";
                said += &word(each, part)?;
            }
            Ok(said)
        };
    Ok(match object {
        Object::None => "N".into(),
        Object::Bool(value) => if *value { "T" } else { "F" }.into(),
        Object::Int(value) => format!("i{value}"),
        Object::Float(value) => format!("f{}", real_word(*value)),
        Object::Complex(re, im) => format!("c{},{}", real_word(*re), real_word(*im)),
        Object::Str(value) => format!("s{}", hex_of(value.as_bytes())),
        Object::Bytes(value) => format!("b{}", hex_of(value)),
        Object::Tensor(tensor) => format!("x{}", part(Part::Tensor(tensor))?),
        Object::Composite(composite) => format!("k{}", part(Part::Composite(composite))?),
        Object::Tuple(items) => container("t", items.len(), &mut items.iter())?,
        Object::List(items) => container("l", items.len(), &mut items.iter())?,
        Object::Set(items) => container("S", items.len(), &mut items.iter())?,
        Object::Dict(entries) => container(
            "d",
            entries.len(),
            &mut entries.iter().flat_map(|(key, value)| [key, value]),
        )?,
        unknown => return other(format!("{unknown:?} is in the object")),
    })
}
