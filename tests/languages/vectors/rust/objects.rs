//! Objects: they are read from the user bytes of a case, described value by value, and written
//! again.

use serde_json::Value;
use tenon::{Message, Object, StorageOptions, Tensor, TensorSpec};

use crate::composite_parts::{number_for, LAYOUTS};
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

/// Returns a word for each value, and for everything inside it.
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
        Object::Composite(composite) => {
            format!("k{}", number_for(&LAYOUTS, composite.spec()?.layout))
        }
        Object::Tuple(items) => container("t", items)?,
        Object::List(items) => container("l", items)?,
        Object::Set(items) => container("S", items)?,
        Object::Dict(entries) => {
            let mut text = format!("d{}", entries.len());
            for (key, value) in entries {
                text +=
                    &format!(" {} {}", object_text(message, key)?, object_text(message, value)?);
            }
            text
        }
        other => return wrong(format!("{other:?} is in the object")),
    })
}

/// Appends the ids of the storages that the object uses, each at its first use. A composite ends
/// the walk with false, because the text does not list its parts.
fn collect_storages(object: &Object, used: &mut Vec<u64>) -> bool {
    match object {
        Object::Composite(_) => return false,
        Object::Tensor(tensor) => {
            let id = tensor.storage().id();
            if !used.contains(&id) {
                used.push(id);
            }
        }
        _ => {}
    }
    object.items().into_iter().flatten().all(|item| collect_storages(item, used))
        && object
            .entries()
            .into_iter()
            .flatten()
            .all(|(key, value)| collect_storages(key, used) && collect_storages(value, used))
}

/// Compares the tensors of a message that is made from the object with the storages that the
/// object uses. The message has one tensor for each storage, in the order of first use. The header
/// in `expect.user` has their number.
fn same_storages(expect: &Value, object: &Object, again: &Message) -> Outcome {
    let user = hex(&expect["user"])?;
    let Some(count) = user.get(12..16).and_then(|count| count.try_into().ok()) else {
        return wrong(format!("{} bytes are no object", user.len()));
    };
    same("tensors", again.len(), u32::from_le_bytes(count) as usize)?;
    let mut used = Vec::new();
    if collect_storages(object, &mut used) {
        same("storages", used.len(), again.len())?;
    }
    for (index, id) in used.into_iter().enumerate() {
        let own = again.tensor(index).map(|tensor| tensor.storage().id());
        same(&format!("storage of tensor {index}"), own, Some(id))?;
    }
    Ok(())
}

pub(crate) fn run_object(case: &Value) -> Outcome {
    let expect = &case["expect"];
    known(expect, &["status", "details", "text", "user"])?;
    let mut message = Message::new()?;
    for data in array(&case["storages"])? {
        let bytes = hex(data)?;
        let storage = StorageOptions::new().copy_from(&bytes)?;
        let sizes = [bytes.len() as i64];
        message.add(
            None,
            &Tensor::new(&storage, &TensorSpec::new(tenon::DType::new(1, 8), &sizes))?,
        )?;
    }
    message.set_user_bytes(&hex(&case["user"])?)?;
    let Some(object) = outcome(expect, message.object())? else { return Ok(()) };
    same("text", object_text(&message, &object)?.as_str(), text(&expect["text"])?)?;
    if expect["user"].is_null() {
        return Ok(());
    }
    let again = Message::from_object(&object)?;
    same("user", hex_of(again.user_bytes()).as_str(), text(&expect["user"])?)?;
    same_storages(expect, &object, &again)
}
