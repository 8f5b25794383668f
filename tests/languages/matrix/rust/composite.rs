//! Composites as the driver's words describe them (tests/languages/matrix/README.md, "Composites").

use tenon::{
    Composite, CompositeSpec, Flags, Quantizer, StorageOptions, Tensor, TensorLayout, TensorMut,
    TensorSpec,
};

use crate::line::{bytes_of, dtype, dtype_word, hex_of, number, numbers, other, word_of, Outcome};

const LAYOUTS: [(i32, TensorLayout); 9] = [
    (1, TensorLayout::SparseCoo),
    (2, TensorLayout::SparseCsr),
    (4, TensorLayout::SparseCsc),
    (5, TensorLayout::SparseBsr),
    (6, TensorLayout::SparseBsc),
    (7, TensorLayout::Jagged),
    (64, TensorLayout::Nested),
    (65, TensorLayout::Meta),
    (66, TensorLayout::Quantized),
];

const QUANTIZERS: [(i32, Quantizer); 4] = [
    (0, Quantizer::None),
    (1, Quantizer::PerTensorAffine),
    (2, Quantizer::PerChannelAffine),
    (3, Quantizer::PerChannelAffineFloatQparams),
];

const COALESCED: [(i32, Option<bool>); 3] = [(0, None), (1, Some(false)), (2, Some(true))];

fn variant<T: Copy>(table: &[(i32, T)], word: &str) -> Outcome<T> {
    let wanted: i32 = number(word)?;
    table
        .iter()
        .find(|(number, _)| *number == wanted)
        .map_or_else(|| other(format!("no variant has the number {word}")), |(_, found)| Ok(*found))
}

fn number_of<T: PartialEq>(table: &[(i32, T)], wanted: T) -> i32 {
    table.iter().find(|(_, found)| *found == wanted).map_or(-1, |(number, _)| *number)
}

fn parts(spec: &mut CompositeSpec) -> [(&'static str, &mut Option<Tensor>); 9] {
    [
        ("values", &mut spec.values),
        ("indices", &mut spec.indices),
        ("plain_indices", &mut spec.plain_indices),
        ("offsets", &mut spec.offsets),
        ("lengths", &mut spec.lengths),
        ("component_sizes", &mut spec.component_sizes),
        ("component_strides", &mut spec.component_strides),
        ("scales", &mut spec.scales),
        ("zero_points", &mut spec.zero_points),
    ]
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
        number_of(&LAYOUTS, spec.layout),
        word_of(&spec.sizes),
        word_of(spec.strides.as_deref().unwrap_or_default()),
        spec.offset,
        spec.dtype.map_or_else(|| "-".into(), dtype_word),
        spec.flags.bits(),
        spec.scale,
        spec.zero_point,
        spec.axis,
        spec.ragged_dim,
        number_of(&QUANTIZERS, spec.quantizer),
        number_of(&COALESCED, spec.coalesced),
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
