//! Makes the declarations from the headers. The committed src/bindings.rs is the result, and a test
//! compares both.

use std::env;
use std::path::PathBuf;

/// Removes Doxygen's `<` from a comment, which rustdoc does not know.
#[derive(Debug)]
struct Comments;

impl bindgen::callbacks::ParseCallbacks for Comments {
    fn process_comment(&self, comment: &str) -> Option<String> {
        Some(comment.trim_start_matches('<').trim().to_owned())
    }
}

pub fn write(include_dirs: &[PathBuf]) {
    let mut dirs = include_dirs.to_vec();
    if dirs.is_empty() {
        panic!("the feature `bindgen` needs the headers: set TENON_INCLUDE_DIR, where TENON_LIB_DIR is set");
    }
    let umbrella = dirs
        .iter()
        .map(|dir| dir.join("tenon/tenon.h"))
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("there is no tenon/tenon.h in {dirs:?}"));
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap()).join("bindings.rs");
    dirs.dedup();
    bindgen::Builder::default()
        .header(umbrella.to_str().expect("a path of UTF-8"))
        .clang_args(dirs.iter().map(|dir| format!("-I{}", dir.display())))
        .allowlist_item("(tenon|TENON)_.*")
        // src/dlpack.rs has DLPack's own structs, which the header only declares.
        .blocklist_item("DLManagedTensor(Versioned)?")
        .prepend_enum_name(false)
        .use_core()
        .merge_extern_blocks(true)
        .generate_comments(true)
        .parse_callbacks(Box::new(Comments))
        .disable_header_comment()
        .rust_target(bindgen::RustTarget::Stable_1_77)
        .formatter(bindgen::Formatter::Prettyplease)
        .raw_line("// Written by bindgen from capi/include/tenon; ../../update-bindings.sh writes it anew.")
        .generate()
        .expect("bindgen")
        .write_to_file(&out)
        .expect("writing bindings.rs");
    println!("cargo:rustc-env=TENON_SYS_BINDINGS={}", out.display());
}
