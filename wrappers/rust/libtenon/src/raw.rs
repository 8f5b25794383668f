//! What the other files share that hold objects and structs of the C library.

/// Gives a type what every owner of one reference to an object of the C library has. The type is
/// `struct Name { raw: NonNull<sys::tenon_name> }`. The word before the name says who may call
/// `as_raw`. `retain` makes the type Clone, and `into_raw` gives it a function of that name.
macro_rules! handle {
    (
        $see:vis $name:ident, $raw:ident, $release:ident $(, retain $retain:ident)?
        $(, fn $into:ident)?
    ) => {
        // SAFETY: the object belongs to no thread, and functions on it may be called concurrently
        // (rule 8 in tenon.h). Those that may not take `&mut self`.
        unsafe impl Send for $name {}
        // SAFETY: the reason is the same as for Send.
        unsafe impl Sync for $name {}

        impl $name {
            /// Returns the C library's pointer. It is borrowed, and released with self.
            $see fn as_raw(&self) -> *mut $crate::sys::$raw {
                self.raw.as_ptr()
            }

            $(
                /// Returns the C library's pointer, together with the reference that self had.
                pub fn $into(self) -> *mut $crate::sys::$raw {
                    std::mem::ManuallyDrop::new(self).as_raw()
                }
            )?
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: the reference belongs to self, and nothing uses it afterwards.
                $crate::panic::release(|| unsafe { $crate::sys::$release(self.as_raw()) });
            }
        }

        $(
            impl Clone for $name {
                fn clone(&self) -> $name {
                    // SAFETY: self keeps the object. The call adds a reference to it, which the
                    // copy releases.
                    unsafe { $crate::sys::$retain(self.as_raw()) };
                    $name { raw: self.raw }
                }
            }
        )?
    };
}

/// Makes a struct of the C library with its own size, and with zero or NULL in every member that
/// is not given.
macro_rules! blank {
    ($raw:ident $({ $($member:ident $(: $value:expr)?),* $(,)? })?) => {{
        // A later version of the struct may have more members than are given.
        #[allow(clippy::needless_update)]
        let raw = $crate::sys::$raw {
            struct_size: std::mem::size_of::<$crate::sys::$raw>(),
            $($($member $(: $value)?,)*)?
            // SAFETY: the members are numbers, pointers, and arrays and structs of these. For all
            // of them zero bytes are a value.
            ..unsafe { std::mem::zeroed() }
        };
        raw
    }};
}
