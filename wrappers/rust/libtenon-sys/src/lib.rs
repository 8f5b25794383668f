//! The C header of Tenon, declaration by declaration. Everything here is unsafe and has only the
//! header's documentation. Programs use the crate `libtenon` instead.
//!
//! bindgen makes the declarations. They are committed, so that a build needs no libclang. The
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
