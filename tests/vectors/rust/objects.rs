//! Objects: read from the user bytes that a case gives, told value by value, and written again.

use serde_json::Value;
use tenon::{Message, Object, StorageOptions, Tensor, TensorLayout, TensorSpec};

use crate::{array, hex, hex_of, known, outcome, same, text, wrong, Outcome};

fn real(number: f64) -> String {
    format!("{:016x}", number.to_bits())
}

fn dims(numbers: &[i64]) -> String {
    if numbers.is_empty() {
        return "-".into();
    }
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn tensor_text(message: &Message, tensor: &Tensor) -> Outcome<String> {
    for index in 0..message.len() {
        let Some(own) = message.tensor(index) else { continue };
        if own.storage().id() != tensor.storage().id() {
            continue;
        }
        let dtype = tensor.dtype();
        return Ok(format!(
            "x{index}:{}:{}:{}:{}:{}:{}:{}",
            dtype.code,
            dtype.bits,
            dtype.lanes,
            dims(tensor.sizes()),
            dims(tensor.strides()),
            tensor.offset(),
            tensor.flags().bits()
        ));
    }
    wrong("a tensor has a storage of its own")
}

/// A word for each value, and for everything inside it.
fn object_text(message: &Message, object: &Object) -> Outcome<String> {
    let container = |letter: &str, items: &[Object]| -> Outcome<String> {
        let mut text = format!("{letter}{}", items.len());
        for item in items {
            text += " ";
            text += &object_text(message, item)?;
        }
        Ok(text)
    };
    Ok(match object {
        Object::None => "N".into(),
        Object::Bool(value) => if *value { "T" } else { "F" }.into(),
        Object::Int(value) => format!("i{value}"),
        Object::Float(value) => format!("f{}", real(*value)),
        Object::Complex(re, im) => format!("c{},{}", real(*re), real(*im)),
        Object::Str(value) => format!("s{}", hex_of(value.as_bytes())),
        Object::Bytes(value) => format!("b{}", hex_of(value)),
        Object::Tensor(tensor) => tensor_text(message, tensor)?,
        Object::Composite(composite) => match composite.spec()?.layout {
            TensorLayout::SparseCsr => "k2".into(),
            TensorLayout::Meta => "k65".into(),
            other => return wrong(format!("a composite of layout {other:?}")),
        },
        Object::Tuple(items) => container("t", items)?,
        Object::List(items) => container("l", items)?,
        Object::Set(items) => container("S", items)?,
        Object::Dict(entries) => {
            let mut text = format!("d{}", entries.len());
            for (key, value) in entries {
                text += &format!(" {} {}", object_text(message, key)?, object_text(message, value)?);
            }
            text
        }
        other => return wrong(format!("{other:?} is in the object")),
    })
}

pub fn run_object(case: &Value) -> Outcome {
    let expect = &case["expect"];
    known(expect, &["status", "details", "text", "user"])?;
    let mut message = Message::new()?;
    for data in array(&case["storages"])? {
        let bytes = hex(data)?;
        let storage = StorageOptions::new().copy_from(&bytes)?;
        let sizes = [bytes.len() as i64];
        message.add(None, &Tensor::new(&storage, &TensorSpec::new(tenon::DType::new(1, 8), &sizes))?)?;
    }
    message.set_user_bytes(&hex(&case["user"])?)?;
    let Some(object) = outcome(expect, message.object())? else { return Ok(()) };
    same("text", object_text(&message, &object)?.as_str(), text(&expect["text"])?)?;
    let again = Message::from_object(&object)?;
    same("user", hex_of(again.user_bytes()).as_str(), text(&expect["user"])?)
}
