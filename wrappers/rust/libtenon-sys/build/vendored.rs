//! Builds the C++ library from its sources, as an archive that becomes part of the Rust program.

use std::env;
use std::path::{Path, PathBuf};

use crate::Found;

/// CMake's target for an archive with the whole library.
const ARCHIVE: &str = "tenon_internal";

pub fn build() -> Found {
    let source = crate::source_dir();
    for part in ["CMakeLists.txt", "cmake", "capi", "impl"] {
        println!("cargo:rerun-if-changed={}", source.join(part).display());
    }
    let mut config = cmake::Config::new(&source);
    config.build_target(ARCHIVE);
    for option in ["TESTS", "EXAMPLES", "PROGRAMS"] {
        config.define(format!("TENON_BUILD_{option}"), "OFF");
    }
    for option in ["LINT", "FUZZ", "WERROR", "INSTALL"] {
        config.define(format!("TENON_{option}"), "OFF");
    }
    if let Some(dir) = dlpack_dir(&source) {
        config.define("TENON_DLPACK_INCLUDE_DIR", dir);
    }
    // The library's CMakeLists.txt sets the options that the library needs. The cmake crate would
    // add others (-w, the profile's debug information, sections). Then these objects would differ
    // from the objects of every other package, and a compiler cache would have to compile all of
    // them again. A build for another machine needs the added options, because they choose that
    // machine.
    if env::var_os("TARGET") == env::var_os("HOST") {
        config.define("CMAKE_C_FLAGS", flags("CFLAGS"));
        config.define("CMAKE_CXX_FLAGS", flags("CXXFLAGS"));
    }
    if env::var("PROFILE").as_deref() == Ok("debug") {
        // A debug build of the caller should not make the library slow, nor put the library's debug
        // information into every program.
        config.profile("Release");
    }
    let built = config.build().join("build");
    println!("cargo:rustc-link-search=native={}", built.display());
    println!("cargo:rustc-link-lib=static={ARCHIVE}");
    link_what_the_archive_needs(Some(&built.join("CMakeCache.txt")));
    println!("cargo:root={}", built.display());
    Found { include_dirs: vec![source.join("capi/include"), built.join("include")] }
}

/// Returns the compiler flags of the user's environment: those for this target, else those for
/// every target.
fn flags(name: &str) -> String {
    let target = env::var("TARGET").unwrap().replace(['-', '.'], "_");
    env::var(format!("{name}_{target}")).or_else(|_| env::var(name)).unwrap_or_default()
}

/// Returns the folder of DLPack's header in the package. In the repository CMake finds the header
/// itself.
fn dlpack_dir(source: &Path) -> Option<PathBuf> {
    let carried = source.join("dlpack/include");
    (env::var_os("TENON_DLPACK_INCLUDE_DIR").is_none() && carried.join("dlpack/dlpack.h").exists())
        .then_some(carried)
}

/// Links libdeflate, where CMake found it, and the C++ standard library.
pub fn link_what_the_archive_needs(cache: Option<&Path>) {
    let cached = cache.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    let deflate = cached
        .lines()
        .find_map(|line| line.strip_prefix("TENON_LIBDEFLATE_LIBRARY:")?.split_once('='))
        .map(|(_, path)| PathBuf::from(path));
    if let Some(dir) = deflate.as_deref().and_then(Path::parent) {
        println!("cargo:rustc-link-search=native={}", dir.display());
    }
    println!("cargo:rustc-link-lib=static=deflate");
    println!("cargo:rustc-link-lib=dylib=stdc++");
}
