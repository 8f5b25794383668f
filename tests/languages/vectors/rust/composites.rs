//! Composites: they are made of a case's parts, sent through a descriptor and compared.

use serde_json::Value;
use tenon::{
    Access, Composite, CompositeSpec, Descriptor, Flags, Message, OpenOptions, StorageOptions,
    Tensor, TensorMut,
};

use crate::composite_parts::{number_for, parts, variant_for, COALESCED, LAYOUTS, QUANTIZERS};
use crate::{
    array, dtype_of, first_bytes, hex, known, name_of, number, numbers, outcome, same, same_bytes,
    tensor_of, text, unsigned, wrong, Not, Outcome,
};

/// Returns the enum variant for a number of C. A case with a number that Rust lacks is skipped.
fn word_for<T: Copy>(table: &[(i64, T)], what: &str, wanted: i64) -> Outcome<T> {
    variant_for(table, wanted)
        .ok_or_else(|| Not::Skip(format!("an enum of Rust's has no {what} {wanted}")))
}

fn number_or_0(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

/// Returns the float64 whose bytes a case has in hex, or 0 if it has none.
fn scale_of(spec: &Value) -> Outcome<f64> {
    let bytes = if spec["scale"].is_null() { vec![0; 8] } else { hex(&spec["scale"])? };
    Ok(f64::from_le_bytes(bytes.try_into().map_err(|_| Not::Wrong("a scale has 8 bytes".into()))?))
}

/// Returns the part of that name in the case.
fn part_of<'c>(case: &'c Value, name: &str) -> Outcome<Option<&'c Value>> {
    Ok(array(&case["parts"])?.iter().find(|part| part["part"] == name))
}

fn spec_of(case: &Value) -> Outcome<CompositeSpec> {
    let given = &case["spec"];
    let mut spec = CompositeSpec {
        layout: word_for(&LAYOUTS, "layout", number(&given["layout"])?)?,
        sizes: if given["sizes"].is_null() { Vec::new() } else { numbers(&given["sizes"])? },
        strides: if given["strides"].is_null() { None } else { Some(numbers(&given["strides"])?) },
        offset: given["offset"].as_u64().unwrap_or(0),
        dtype: if given["dtype"].is_null() { None } else { Some(dtype_of(&given["dtype"])?) },
        flags: Flags::from_raw(given["flags"].as_u64().unwrap_or(0) as u32),
        scale: scale_of(given)?,
        zero_point: number_or_0(&given["zero_point"]),
        axis: number_or_0(&given["axis"]) as i32,
        ragged_dim: number_or_0(&given["ragged_dim"]) as i32,
        quantizer: word_for(&QUANTIZERS, "quantizer", number_or_0(&given["quantizer"]))?,
        coalesced: word_for(&COALESCED, "word for coalesced", number_or_0(&given["coalesced"]))?,
        ..CompositeSpec::default()
    };
    for (name, field) in parts(&mut spec) {
        if let Some(part) = part_of(case, name)? {
            let storage = StorageOptions::new().copy_from(&hex(&part["data"])?)?;
            *field = Some(tensor_of(&storage, part)??.into());
        }
    }
    Ok(spec)
}

fn same_data(tensor: &Tensor, part: &Value) -> Outcome {
    let storage = tensor.storage();
    let what = format!("data of {}", part["part"]);
    same(&what, first_bytes(&storage, 0, storage.nbytes() as usize)?.as_str(), text(&part["data"])?)
}

/// Compares a composite with the case. A checked composite may have copies of parts, so only their
/// shapes are compared.
fn same_composite(case: &Value, composite: &Composite, checked: bool) -> Outcome {
    let (given, expect) = (&case["spec"], &case["expect"]);
    let mut spec = composite.spec()?;
    same("layout", number_for(&LAYOUTS, spec.layout), number(&given["layout"])?)?;
    same("offset", spec.offset as i64, number_or_0(&given["offset"]))?;
    same("flags", i64::from(spec.flags.bits()), number_or_0(&given["flags"]))?;
    same("zero_point", spec.zero_point, number_or_0(&given["zero_point"]))?;
    same("axis", i64::from(spec.axis), number_or_0(&given["axis"]))?;
    same("ragged_dim", i64::from(spec.ragged_dim), number_or_0(&given["ragged_dim"]))?;
    same("quantizer", number_for(&QUANTIZERS, spec.quantizer), number_or_0(&given["quantizer"]))?;
    same("coalesced", number_for(&COALESCED, spec.coalesced), number_or_0(&given["coalesced"]))?;
    same("scale", spec.scale.to_bits(), scale_of(given)?.to_bits())?;
    same("dtype", spec.dtype, Some(dtype_of(&expect["dtype"])?))?;
    same("sizes", &spec.sizes, &numbers(&expect["sizes"])?)?;
    same(
        "strides",
        spec.strides.clone(),
        if expect["strides"].is_null() { None } else { Some(numbers(&expect["strides"])?) },
    )?;
    for (name, field) in parts(&mut spec) {
        let part = part_of(case, name)?;
        same(&format!("there are {name}"), field.is_some(), part.is_some())?;
        let (Some(tensor), Some(part)) = (field, part) else { continue };
        same(&format!("dtype of {name}"), tensor.dtype(), dtype_of(&part["dtype"])?)?;
        same(&format!("sizes of {name}"), tensor.sizes(), &numbers(&part["sizes"])?)?;
        if checked {
            continue;
        }
        same(&format!("offset of {name}"), tensor.offset(), unsigned(&part["offset"])?)?;
        if !part["strides"].is_null() {
            same(&format!("strides of {name}"), tensor.strides(), &numbers(&part["strides"])?)?;
        }
        same_data(tensor, part)?;
    }
    Ok(())
}

/// Compares a message in which the composite comes after one tensor. The parts of the composite are
/// the tensors after that one.
fn same_message(case: &Value, message: &Message, name: Option<&str>) -> Outcome {
    let parts = array(&case["expect"]["parts"])?;
    same("composites", message.composite_count(), 1)?;
    same("tensors", message.len(), parts.len() + 1)?;
    same("parts", message.composite_parts(0), 1..1 + parts.len())?;
    for (index, part) in parts.iter().enumerate() {
        let (Some(part), Some(tensor)) = (part_of(case, text(part)?)?, message.tensor(1 + index))
        else {
            return wrong(format!("there is no {part}"));
        };
        same_data(&tensor, part)?;
    }
    same("name", message.composite_name(0), name)?;
    if let Some(name) = name {
        let (found, first) = (message.find_composite(name), message.composite(0));
        same(
            "found by name",
            found.map(|found| found.as_raw()),
            first.map(|first| first.as_raw()),
        )?;
    }
    Ok(())
}

/// Opens a bytes-only descriptor of a message that has a tensor and the composite.
fn pass_on(case: &Value, composite: &Composite, name: Option<&str>) -> Outcome<Message> {
    let mut message = Message::new()?;
    let tensor = TensorMut::zeros::<u8>(&[1])?;
    message.add("t", &tensor)?;
    message.add_composite(name, composite)?;
    let descriptor = Descriptor::bytes_only(&message)?;
    let bytes = descriptor.bytes();
    let begin = bytes.get(240..248).and_then(|at| at.try_into().ok()).map_or(0, u64::from_le_bytes);
    same_bytes(bytes.get(begin as usize..).unwrap_or_default().to_vec(), &case["expect"])?;
    Ok(Descriptor::open(bytes, &[], Access::Auto, OpenOptions::new())?)
}

pub(crate) fn run_composite(case: &Value) -> Outcome {
    let expect = &case["expect"];
    known(expect, &["status", "details", "bytes", "parts", "sizes", "strides", "dtype", "check"])?;
    let name = name_of(&case["name"], 1)?;
    let Some(composite) = outcome(expect, Composite::new(&spec_of(case)?))? else { return Ok(()) };
    let message = pass_on(case, &composite, name.as_deref())?;
    same_message(case, &message, name.as_deref())?;
    let Some(received) = message.composite(0) else { return wrong("there is no composite") };
    same_composite(case, &received, false)?;
    match outcome(&expect["check"], received.check())? {
        Some(checked) => same_composite(case, &checked, true),
        None => Ok(()),
    }
}
