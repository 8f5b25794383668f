//! The C header of Tenon, declaration by declaration. Nothing here is safe, and nothing is
//! explained beyond what the header says; the crate `libtenon` is the one to use.
//!
//! The declarations are bindgen's. They are committed, so that a build needs no libclang; the
//! feature `bindgen` makes them anew.
#![no_std]

#[allow(non_camel_case_types, non_upper_case_globals, missing_docs, clippy::all)]
mod bindings {
    use crate::dlpack::{DLManagedTensor, DLManagedTensorVersioned};

    #[cfg(not(feature = "bindgen"))]
    include!("bindings.rs");
    #[cfg(feature = "bindgen")]
    include!(env!("TENON_SYS_BINDINGS"));
}

pub mod dlpack;

pub use bindings::*;
