//! Composites as the driver's words describe them (tests/languages/matrix/README.md, "Composites").

use tenon::{
    Composite, CompositeSpec, Flags, StorageOptions, Tensor, TensorLayout, TensorMut, TensorSpec,
};

use crate::composite_parts::{number_for, parts, variant_for, COALESCED, LAYOUTS, QUANTIZERS};
use crate::line::{bytes_of, dtype, dtype_word, hex_of, number, numbers, other, word_of, Outcome};

fn variant<T: Copy>(table: &[(i64, T)], word: &str) -> Outcome<T> {
    variant_for(table, number(word)?)
        .map_or_else(|| other(format!("no variant has the number {word}")), Ok)
}

/// DTYPE/SIZES/CONTENT
fn part(word: &str) -> Outcome<Tensor> {
    let [element, sizes, content] = *word.split('/').collect::<Vec<_>>() else {
        return other(format!("{word} is no part"));
    };
    let bytes = if content == "-" { Vec::new() } else { bytes_of(content)? };
    let storage = StorageOptions::new().copy_from(&bytes)?;
    Ok(TensorMut::new(&storage, &TensorSpec::new(dtype(element)?, &numbers(sizes)?))?.into())
}

/// Makes the composite that the words of COMPOSITE describe.
pub fn read(words: &[&str]) -> Outcome<Composite> {
    let too_few = || other("too few words for a composite");
    let [layout, sizes, strides, offset, element, flags, ref more @ ..] = *words else {
        return too_few();
    };
    let [scale, zero_point, axis, ragged_dim, quantizer, coalesced, ref given @ ..] = *more else {
        return too_few();
    };
    let layout = variant(&LAYOUTS, layout)?;
    let mut spec = CompositeSpec {
        layout,
        sizes: numbers(sizes)?,
        strides: (layout == TensorLayout::Meta).then(|| numbers(strides)).transpose()?,
        offset: number(offset)?,
        dtype: (layout == TensorLayout::Meta).then(|| dtype(element)).transpose()?,
        flags: Flags::from_raw(number(flags)?),
        scale: number(scale)?,
        zero_point: number(zero_point)?,
        axis: number(axis)?,
        ragged_dim: number(ragged_dim)?,
        quantizer: variant(&QUANTIZERS, quantizer)?,
        coalesced: variant(&COALESCED, coalesced)?,
        ..CompositeSpec::default()
    };
    for word in given {
        let (name, rest) =
            word.split_once('=').map_or_else(|| other(format!("{word} is no part")), Ok)?;
        let made = part(rest)?;
        match parts(&mut spec).into_iter().find(|(known, _)| *known == name) {
            Some((_, field)) => *field = Some(made),
            None => return other(format!("no part is called {name}")),
        }
    }
    Ok(Composite::new(&spec)?)
}

/// The words of a composite. `content` gives the elements of a part.
pub fn words(composite: &Composite, content: impl Fn(&Tensor) -> Outcome<Vec<u8>>) -> Outcome {
    let mut spec = composite.spec()?;
    let mut said = format!(
        "{} {} {} {} {} {} {} {} {} {} {} {}",
        number_for(&LAYOUTS, spec.layout),
        word_of(&spec.sizes),
        word_of(spec.strides.as_deref().unwrap_or_default()),
        spec.offset,
        spec.dtype.map_or_else(|| "-".into(), dtype_word),
        spec.flags.bits(),
        spec.scale,
        spec.zero_point,
        spec.axis,
        spec.ragged_dim,
        number_for(&QUANTIZERS, spec.quantizer),
        number_for(&COALESCED, spec.coalesced),
    );
    for (name, field) in parts(&mut spec) {
        if let Some(tensor) = field {
            let elements = hex_of(&content(tensor)?);
            said += &format!(
                " {name}={}/{}/{elements}",
                dtype_word(tensor.dtype()),
                word_of(tensor.sizes())
            );
        }
    }
    Ok(said)
}
