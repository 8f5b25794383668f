//! The numbers of C for the enums of a composite, and the names of its parts. The programs in Rust
//! of `matrix` and `vectors` use them.

use tenon::{CompositeSpec, Quantizer, Tensor, TensorLayout};

pub(crate) const LAYOUTS: [(i64, TensorLayout); 10] = [
    (0, TensorLayout::Strided),
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

pub(crate) const QUANTIZERS: [(i64, Quantizer); 4] = [
    (0, Quantizer::None),
    (1, Quantizer::PerTensorAffine),
    (2, Quantizer::PerChannelAffine),
    (3, Quantizer::PerChannelAffineFloatQparams),
];

pub(crate) const COALESCED: [(i64, Option<bool>); 3] =
    [(0, None), (1, Some(false)), (2, Some(true))];

/// Returns the enum variant for a number of C, unless Rust lacks it.
pub(crate) fn variant_for<T: Copy>(table: &[(i64, T)], wanted: i64) -> Option<T> {
    table.iter().find(|(number, _)| *number == wanted).map(|(_, variant)| *variant)
}

pub(crate) fn number_for<T: PartialEq>(table: &[(i64, T)], wanted: T) -> i64 {
    table.iter().find(|(_, variant)| *variant == wanted).map_or(-1, |(number, _)| *number)
}

pub(crate) fn parts(spec: &mut CompositeSpec) -> [(&'static str, &mut Option<Tensor>); 9] {
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
