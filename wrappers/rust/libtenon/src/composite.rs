//! Composites: sparse, nested and quantised tensors, which consist of several tensors, and tensors
//! on meta, which have no memory. A composite travels in a [`Message`], like a tensor.

use std::ffi::{CStr, CString};
use std::fmt;
use std::mem::size_of;
use std::ops::Range;
use std::ptr::{self, NonNull};

use crate::by_fd::Access;
use crate::dtype::DType;
use crate::error::{check, make, Error, ErrorKind, Result};
use crate::message::{c_pointers, named, retained, Message};
use crate::spec::Flags;
use crate::sys;
use crate::tensor::Tensor;
use crate::view::numbers;

/// Says how the elements of a tensor are laid out. A [`Composite`] has any layout except
/// [`Strided`](Self::Strided). A tensor in a [`Value`](crate::Value) has `Strided` or one of the
/// sparse layouts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TensorLayout {
    /// The elements lie by strides.
    #[default]
    Strided,
    /// The elements lie by coordinates: `indices` and `values`.
    SparseCoo,
    /// The rows are compressed: `indices` are the row pointers, `plain_indices` the columns.
    SparseCsr,
    /// The columns are compressed: `indices` are the column pointers, `plain_indices` the rows.
    SparseCsc,
    /// As CSR, but of blocks.
    SparseBsr,
    /// As CSC, but of blocks.
    SparseBsc,
    /// The components have different sizes in one dimension.
    Jagged,
    /// The components have different sizes in any dimension.
    Nested,
    /// The tensor has sizes and an element type, but no elements.
    Meta,
    /// The elements are integers that represent numbers.
    Quantized,
}

/// How quantised elements represent numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Quantizer {
    /// The elements represent themselves.
    #[default]
    None,
    /// `scale` and `zero_point` say what the elements represent.
    PerTensorAffine,
    /// `scales` and `zero_points`, along `axis`, say what the elements represent.
    PerChannelAffine,
    /// As PerChannelAffine, but the zero points are floats.
    PerChannelAffineFloatQparams,
}

pub(crate) const LAYOUTS: [(TensorLayout, u32); 10] = [
    (TensorLayout::Strided, sys::TENON_TENSOR_LAYOUT_STRIDED),
    (TensorLayout::SparseCoo, sys::TENON_TENSOR_LAYOUT_SPARSE_COO),
    (TensorLayout::SparseCsr, sys::TENON_TENSOR_LAYOUT_SPARSE_CSR),
    (TensorLayout::SparseCsc, sys::TENON_TENSOR_LAYOUT_SPARSE_CSC),
    (TensorLayout::SparseBsr, sys::TENON_TENSOR_LAYOUT_SPARSE_BSR),
    (TensorLayout::SparseBsc, sys::TENON_TENSOR_LAYOUT_SPARSE_BSC),
    (TensorLayout::Jagged, sys::TENON_TENSOR_LAYOUT_JAGGED),
    (TensorLayout::Nested, sys::TENON_TENSOR_LAYOUT_NESTED),
    (TensorLayout::Meta, sys::TENON_TENSOR_LAYOUT_META),
    (TensorLayout::Quantized, sys::TENON_TENSOR_LAYOUT_QUANTIZED),
];

pub(crate) const QUANTIZERS: [(Quantizer, u32); 4] = [
    (Quantizer::None, sys::TENON_QUANTIZER_NONE),
    (Quantizer::PerTensorAffine, sys::TENON_QUANTIZER_PER_TENSOR_AFFINE),
    (Quantizer::PerChannelAffine, sys::TENON_QUANTIZER_PER_CHANNEL_AFFINE),
    (
        Quantizer::PerChannelAffineFloatQparams,
        sys::TENON_QUANTIZER_PER_CHANNEL_AFFINE_FLOAT_QPARAMS,
    ),
];

pub(crate) const COALESCED: [(Option<bool>, u32); 3] = [
    (None, sys::TENON_COALESCED_UNKNOWN),
    (Some(false), sys::TENON_COALESCED_NO),
    (Some(true), sys::TENON_COALESCED_YES),
];

pub(crate) fn to_raw<T: Copy + PartialEq>(table: &[(T, u32)], wanted: T) -> i32 {
    table.iter().find(|(name, _)| *name == wanted).map_or(-1, |(_, raw)| *raw as i32)
}

pub(crate) fn from_raw<T: Copy>(table: &[(T, u32)], wanted: i32) -> Result<T> {
    let found = table.iter().find(|(_, raw)| *raw as i32 == wanted).map(|(name, _)| *name);
    found.ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            format!("a tensor of a kind {wanted} that this crate has no word for"),
        )
    })
}

/// Describes a composite: its parts, and how they belong together. Sizes, strides and offsets count
/// elements. A field that the layout does not use is `None` or 0.
#[derive(Clone, Debug, Default)]
pub struct CompositeSpec {
    /// How the elements are laid out; never [`TensorLayout::Strided`].
    pub layout: TensorLayout,
    /// Elements in each dimension. The caller gives them for sparse layouts and for meta; for other
    /// layouts they follow from the parts, and [`Composite::new`] does not read them. A size is -1
    /// if it can differ from component to component.
    pub sizes: Vec<i64>,
    /// For meta: the steps between elements along each dimension, in elements. `None` makes a
    /// contiguous tensor.
    pub strides: Option<Vec<i64>>,
    /// For meta: the distance from the start of the storage that is not there.
    pub offset: u64,
    /// The element type. The caller gives it for meta; for other layouts it is that of `values`,
    /// and [`Composite::new`] does not read it.
    pub dtype: Option<DType>,
    /// [`Flags::REQUIRES_GRAD`], [`Flags::IS_PARAMETER`]; meta: also the others.
    pub flags: Flags,
    /// The elements, in all layouts except meta. Their dimensions are, for COO, the non-zeros, then
    /// the dense dimensions. For CSR, CSC, BSR and BSC they are the batch, the non-zeros, for BSR
    /// and BSC the two block dimensions, and then the dense dimensions. For a jagged tensor they
    /// are those of the whole tensor without the first, and all components follow each other in the
    /// ragged one. A nested tensor has one dimension, which is contiguous. The values of a
    /// quantised tensor are int8, uint8, int32, uint4 or uint2.
    pub values: Option<Tensor>,
    /// For COO: the indices, sparse dimensions by non-zeros. For CSR and BSR: the row pointers. For
    /// CSC and BSC: the column pointers. They are int64 or int32, as are the next three parts.
    pub indices: Option<Tensor>,
    /// For CSR and BSR: the column indices. For CSC and BSC: the row indices.
    pub plain_indices: Option<Tensor>,
    /// For a jagged tensor: where each component begins along the ragged dimension of `values`, and
    /// then where the last one ends. For a nested tensor: where each component begins in `values`,
    /// as int64.
    pub offsets: Option<Tensor>,
    /// For a jagged tensor: the length of each component. `None` means that each component ends
    /// where the next one begins.
    pub lengths: Option<Tensor>,
    /// For a nested tensor: components by dimensions, int64.
    pub component_sizes: Option<Tensor>,
    /// For a nested tensor: components by dimensions, int64.
    pub component_strides: Option<Tensor>,
    /// Quantised per channel: one float64 for each channel, or one float32 with float parameters.
    pub scales: Option<Tensor>,
    /// Quantised per channel: one int64 for each channel, or one float32 with float parameters.
    pub zero_points: Option<Tensor>,
    /// Quantised per tensor: an element represents the number (element - zero_point) * scale.
    pub scale: f64,
    /// Quantised per tensor.
    pub zero_point: i64,
    /// Quantised per channel: the dimension of the channels.
    pub axis: i32,
    /// For a jagged tensor: the dimension in which the components differ, from 1 on. Dimension 0
    /// counts the components.
    pub ragged_dim: i32,
    /// How quantised elements represent numbers.
    pub quantizer: Quantizer,
    /// For COO: whether the indices are sorted and no two are equal. `None` means that this is not
    /// known.
    pub coalesced: Option<bool>,
}

/// A tensor of several parts, or a tensor on meta. A composite never changes. A clone is one more
/// reference to the same composite, which keeps its parts.
///
/// ```
/// use tenon::{Composite, CompositeSpec, Message, Tensor, TensorLayout};
///
/// // [[1, 0, 0, 2],
/// //  [0, 3, 0, 0]]
/// let matrix = Composite::new(&CompositeSpec {
///     layout: TensorLayout::SparseCsr,
///     sizes: vec![2, 4],
///     values: Some(Tensor::frozen(&[1.0f32, 2.0, 3.0], &[3])?),
///     indices: Some(Tensor::frozen(&[0i64, 2, 3], &[3])?),
///     plain_indices: Some(Tensor::frozen(&[0i64, 3, 1], &[3])?),
///     ..CompositeSpec::default()
/// })?;
/// let mut message = Message::new()?;
/// message.add_composite("matrix", &matrix)?;
///
/// // The receiver of the message checks the indices before it follows them:
/// let received = message.find_composite("matrix").unwrap().check()?;
/// assert_eq!(received.sizes(), [2, 4]);
/// assert_eq!(received.spec()?.values.unwrap().as_slice::<f32>()?, [1.0, 2.0, 3.0]);
/// # Ok::<(), tenon::Error>(())
/// ```
pub struct Composite {
    raw: NonNull<sys::tenon_composite>,
}

handle!(
    pub Composite, tenon_composite, tenon_composite_release, retain tenon_composite_retain,
    fn into_raw
);

impl Composite {
    /// Makes a composite. The shapes, the element types and the devices of the parts must fit each
    /// other. Otherwise the error's detail `part` names the wrong part. The numbers in the indices,
    /// offsets and component sizes are not read: [`check`](Self::check) does that.
    pub fn new(spec: &CompositeSpec) -> Result<Composite> {
        if let Some(strides) =
            spec.strides.as_ref().filter(|strides| strides.len() != spec.sizes.len())
        {
            let text = format!(
                "{} sizes and {} strides do not go together",
                spec.sizes.len(),
                strides.len()
            );
            return Err(Error::new(ErrorKind::InvalidArgument, text));
        }
        let part =
            |tensor: &Option<Tensor>| tensor.as_ref().map_or(ptr::null_mut(), Tensor::as_raw);
        let raw = sys::tenon_composite_spec {
            struct_size: size_of::<sys::tenon_composite_spec>(),
            layout: to_raw(&LAYOUTS, spec.layout),
            ndim: spec.sizes.len().try_into().unwrap_or(i32::MAX),
            sizes: spec.sizes.as_ptr(),
            strides: spec.strides.as_ref().map_or(ptr::null(), |strides| strides.as_ptr()),
            offset: spec.offset,
            dtype: spec.dtype.map_or(sys::tenon_dtype { code: 0, bits: 0, lanes: 0 }, DType::raw),
            flags: spec.flags.bits(),
            values: part(&spec.values),
            indices: part(&spec.indices),
            plain_indices: part(&spec.plain_indices),
            offsets: part(&spec.offsets),
            lengths: part(&spec.lengths),
            component_sizes: part(&spec.component_sizes),
            component_strides: part(&spec.component_strides),
            scales: part(&spec.scales),
            zero_points: part(&spec.zero_points),
            scale: spec.scale,
            zero_point: spec.zero_point,
            axis: spec.axis,
            ragged_dim: spec.ragged_dim,
            quantizer: to_raw(&QUANTIZERS, spec.quantizer),
            coalesced: to_raw(&COALESCED, spec.coalesced),
        };
        // SAFETY: raw and everything to which it points are borrowed for the call. Sizes and
        // strides have ndim numbers.
        Ok(Composite { raw: make(|out, err| unsafe { sys::tenon_composite_new(&raw, out, err) })? })
    }

    fn raw_spec(&self) -> sys::tenon_composite_spec {
        let mut raw = blank!(tenon_composite_spec);
        // SAFETY: self keeps the composite alive, and raw has its own struct_size.
        let spec =
            check(|err| unsafe { sys::tenon_composite_get_spec(self.as_raw(), &mut raw, err) });
        // The documentation says that this call fails only for NULL and for a struct that is too
        // small.
        spec.unwrap_or_else(|error| unreachable!("{error}"));
        raw
    }

    /// Returns the layout, the sizes and the parts, with a new reference to each part. The error is
    /// [`ErrorKind::Unsupported`] if a newer library made a composite that this crate does not
    /// know.
    pub fn spec(&self) -> Result<CompositeSpec> {
        let raw = self.raw_spec();
        // SAFETY: NULL, or a tensor that the composite keeps.
        let part = |tensor| unsafe { retained(tensor) };
        Ok(CompositeSpec {
            layout: from_raw(&LAYOUTS, raw.layout)?,
            // SAFETY: ndim numbers, borrowed from the composite.
            sizes: unsafe { numbers(raw.sizes, raw.ndim) }.to_vec(),
            // SAFETY: as above. Without dimensions there are none, NULL or not.
            strides: (raw.layout == to_raw(&LAYOUTS, TensorLayout::Meta))
                .then(|| unsafe { numbers(raw.strides, raw.ndim) }.to_vec()),
            offset: raw.offset,
            dtype: Some(DType::from_raw(raw.dtype)),
            flags: Flags::from_raw(raw.flags),
            values: part(raw.values),
            indices: part(raw.indices),
            plain_indices: part(raw.plain_indices),
            offsets: part(raw.offsets),
            lengths: part(raw.lengths),
            component_sizes: part(raw.component_sizes),
            component_strides: part(raw.component_strides),
            scales: part(raw.scales),
            zero_points: part(raw.zero_points),
            scale: raw.scale,
            zero_point: raw.zero_point,
            axis: raw.axis,
            ragged_dim: raw.ragged_dim,
            quantizer: from_raw(&QUANTIZERS, raw.quantizer)?,
            coalesced: from_raw(&COALESCED, raw.coalesced)?,
        })
    }

    /// Returns how the elements are laid out. The error is that of [`spec`](Self::spec).
    pub fn layout(&self) -> Result<TensorLayout> {
        from_raw(&LAYOUTS, self.raw_spec().layout)
    }

    /// Returns the sizes of the dimensions, in elements. A size is -1 if it can differ from
    /// component to component.
    pub fn sizes(&self) -> &[i64] {
        let raw = self.raw_spec();
        // SAFETY: ndim numbers, borrowed from the composite (composite.h).
        unsafe { numbers(raw.sizes, raw.ndim) }
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        DType::from_raw(self.raw_spec().dtype)
    }

    /// Checks the numbers in the indices, offsets and component sizes. After that, a reader that
    /// follows the numbers of the result stays inside the parts. The result is the same composite,
    /// or one with private copies of those parts to which another process can still write. The
    /// values are never copied. The error is [`ErrorKind::Corrupt`] if a number is wrong: the
    /// details `part` and `index` say where.
    pub fn check(&self) -> Result<Composite> {
        // SAFETY: self keeps the composite alive; out is ours.
        let raw = make(|out, err| unsafe { sys::tenon_composite_check(self.as_raw(), out, err) })?;
        Ok(Composite { raw })
    }

    /// Takes over a reference from C.
    ///
    /// # Safety
    /// `raw` is a living composite, and its owner gives one reference away. Its parts fulfil the
    /// conditions of [`Tensor::from_raw`].
    pub unsafe fn from_raw(raw: NonNull<sys::tenon_composite>) -> Composite {
        Composite { raw }
    }

    /// # Safety
    /// `raw` is NULL or a living composite.
    pub(crate) unsafe fn retained(raw: *mut sys::tenon_composite) -> Option<Composite> {
        // SAFETY: as above; the new reference is Composite's.
        NonNull::new(unsafe { sys::tenon_composite_retain(raw) }).map(|raw| Composite { raw })
    }
}

impl fmt::Debug for Composite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Composite");
        if let Ok(layout) = self.layout() {
            out.field("layout", &layout);
        }
        out.field("dtype", &self.dtype()).field("sizes", &self.sizes()).finish()
    }
}

impl Message {
    /// Adds a composite. Its parts become tensors of the message. They have no names, and follow
    /// the tensors that the message has already. Borrowers get the access to each part that its
    /// mode gives. The name is a `&str` or `None`.
    pub fn add_composite<'n>(
        &mut self,
        name: impl Into<Option<&'n str>>,
        composite: &Composite,
    ) -> Result<()> {
        self.add_composites([(name.into(), composite)], Access::Auto)
    }

    /// Adds composites, all of them or none, in one call. `access` applies to every part.
    pub fn add_composites<'c, N, I>(&mut self, composites: I, access: Access) -> Result<()>
    where
        I: IntoIterator<Item = (Option<N>, &'c Composite)>,
        N: AsRef<str>,
    {
        let (raws, names) = named(composites, Composite::as_raw)?;
        let names = c_pointers(&names);
        let options = access.share_options();
        // SAFETY: arrays of as many living composites and names, borrowed for the call.
        check(|err| unsafe {
            sys::tenon_message_add_composites(
                self.as_raw(),
                raws.as_ptr(),
                names.as_ptr(),
                raws.len(),
                &options,
                err,
            )
        })
    }

    /// Returns the number of composites. Their parts count in [`len`](Self::len).
    pub fn composite_count(&self) -> usize {
        // SAFETY: self keeps the message.
        unsafe { sys::tenon_message_composite_count(self.as_raw()) }
    }

    /// Returns one composite, counted from 0. Composites are in the order of their parts.
    pub fn composite(&self, index: usize) -> Option<Composite> {
        // SAFETY: borrowed from the message, or NULL past the end.
        unsafe { Composite::retained(sys::tenon_message_composite(self.as_raw(), index)) }
    }

    /// Says which tensors of the message are the parts of one composite. On meta the range is
    /// empty, and begins at the tensor before which the composite was added. If there is no
    /// composite with that index, the range is empty and begins at [`len`](Self::len).
    ///
    /// A reader that wants everything in the order in which it was added walks through the tensors,
    /// and takes each composite where its range begins, instead of the tensors in the range.
    pub fn composite_parts(&self, index: usize) -> Range<usize> {
        let mut count = 0;
        // SAFETY: self keeps the message; count is ours.
        let first = unsafe { sys::tenon_message_composite_parts(self.as_raw(), index, &mut count) };
        first..first + count
    }

    /// Returns the name of one composite. It is `None` if the composite has no name, if there is
    /// none with that index, or if the name is not UTF-8.
    pub fn composite_name(&self, index: usize) -> Option<&str> {
        // SAFETY: self keeps the message.
        let name = unsafe { sys::tenon_message_composite_name(self.as_raw(), index) };
        // SAFETY: NUL-terminated, borrowed from the message.
        (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_str().ok()).flatten()
    }

    /// Returns the first composite of that name.
    pub fn find_composite(&self, name: &str) -> Option<Composite> {
        let name = CString::new(name).ok()?;
        // SAFETY: the name is borrowed for the call; the result is borrowed from the message, or
        // NULL.
        unsafe {
            Composite::retained(sys::tenon_message_find_composite(self.as_raw(), name.as_ptr()))
        }
    }
}
