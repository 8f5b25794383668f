//! Members, names and files of modules. These functions read the lists of the C library as a whole
//! and release them.

use std::ptr::{self, NonNull};

use crate::error::{check, Result};
use crate::module::Module;
use crate::sys;
use crate::text::owned;
use crate::value::Value;

/// Says what a name in a module stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemberKind {
    /// A parameter.
    Parameter,
    /// A buffer.
    Buffer,
    /// An attribute of a declared type.
    Attribute,
    /// A constant of the class.
    Constant,
    /// Another module.
    Submodule,
    /// A method.
    Method,
    /// The state of an object, or a part of it.
    State,
}

impl MemberKind {
    fn from_raw(raw: i32) -> MemberKind {
        match raw as u32 {
            sys::TENON_MEMBER_PARAMETER => MemberKind::Parameter,
            sys::TENON_MEMBER_BUFFER => MemberKind::Buffer,
            sys::TENON_MEMBER_CONSTANT => MemberKind::Constant,
            sys::TENON_MEMBER_SUBMODULE => MemberKind::Submodule,
            sys::TENON_MEMBER_METHOD => MemberKind::Method,
            sys::TENON_MEMBER_STATE => MemberKind::State,
            _ => MemberKind::Attribute,
        }
    }

    /// Returns the name of the kind in lower case, such as `"parameter"`.
    pub fn name(self) -> &'static str {
        match self {
            MemberKind::Parameter => "parameter",
            MemberKind::Buffer => "buffer",
            MemberKind::Attribute => "attribute",
            MemberKind::Constant => "constant",
            MemberKind::Submodule => "submodule",
            MemberKind::Method => "method",
            MemberKind::State => "state",
        }
    }
}

/// A member, as it was when it was read.
#[derive(Debug)]
#[non_exhaustive]
pub struct Member {
    /// The kind of the member.
    pub kind: MemberKind,
    /// The member's name. In the result of [`Module::tensors`] it is its path.
    pub name: String,
    /// The declared type. For a submodule it is its class, and for a method `""`.
    pub type_text: String,
    /// The source of a method, and of a constant as it stands in the class; else `""`.
    pub source: String,
    /// The value. It is `None` for submodules, methods, and constants that are not literals.
    pub value: Option<Value>,
    /// The module, for a submodule.
    pub module: Option<Module>,
}

/// A list of the library, which is released when this is dropped.
struct List<T>(NonNull<T>, unsafe extern "C" fn(*mut T));

impl<T> Drop for List<T> {
    fn drop(&mut self) {
        // SAFETY: the list belongs to self, and nothing uses it afterwards.
        crate::panic::release(|| unsafe { self.1(self.0.as_ptr()) });
    }
}

pub(crate) fn members(raw: NonNull<sys::tenon_member_list>) -> Result<Vec<Member>> {
    let list = List(raw, sys::tenon_member_list_release);
    // SAFETY: the list lives.
    let count = unsafe { sys::tenon_member_list_count(list.0.as_ptr()) };
    (0..count)
        .map(|index| {
            let mut raw = blank!(tenon_member);
            // SAFETY: the list lives, and raw has its own struct_size.
            check(|err| unsafe {
                sys::tenon_member_list_get(list.0.as_ptr(), index, &mut raw, err)
            })?;
            // SAFETY: everything is borrowed from the list. This keeps only copies, and references
            // of its own.
            Ok(unsafe {
                Member {
                    kind: MemberKind::from_raw(raw.kind),
                    name: owned(raw.name),
                    type_text: owned(raw.type_),
                    source: owned(raw.source),
                    value: Value::retained(raw.value),
                    module: Module::retained(raw.module),
                }
            })
        })
        .collect()
}

pub(crate) fn names(raw: NonNull<sys::tenon_name_list>) -> Result<Vec<String>> {
    let list = List(raw, sys::tenon_name_list_release);
    // SAFETY: the list lives.
    let count = unsafe { sys::tenon_name_list_count(list.0.as_ptr()) };
    // SAFETY: the names are borrowed from the list, and copied.
    Ok((0..count)
        .map(|index| unsafe { owned(sys::tenon_name_list_get(list.0.as_ptr(), index)) })
        .collect())
}

pub(crate) fn files(raw: NonNull<sys::tenon_file_list>) -> Result<Vec<(String, Vec<u8>)>> {
    let list = List(raw, sys::tenon_file_list_release);
    // SAFETY: the list lives.
    let count = unsafe { sys::tenon_file_list_count(list.0.as_ptr()) };
    (0..count)
        .map(|index| {
            let mut raw = sys::tenon_file { name: ptr::null(), data: ptr::null(), nbytes: 0 };
            // SAFETY: the list lives, and raw belongs to this function.
            check(|err| unsafe {
                sys::tenon_file_list_get(list.0.as_ptr(), index, &mut raw, err)
            })?;
            let data = if raw.nbytes == 0 {
                Vec::new()
            } else {
                // SAFETY: this many bytes are borrowed from the list, which never changes.
                unsafe { std::slice::from_raw_parts(raw.data.cast::<u8>(), raw.nbytes) }.to_vec()
            };
            // SAFETY: the name is borrowed from the list, and copied.
            Ok((unsafe { owned(raw.name) }, data))
        })
        .collect()
}
