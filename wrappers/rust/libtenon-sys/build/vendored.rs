//! Builds the C++ library from its sources, as an archive that goes into the Rust program.

use std::env;
use std::path::{Path, PathBuf};

use crate::Found;

/// CMake's target for everything as an archive.
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
    // The library's CMakeLists.txt sets the options that the library needs. Those that the cmake
    // crate would add (-w, the profile's debug information, sections) only make these objects
    // differ from the ones of every other package, so that a compiler's cache would compile all of
    // them again. A build for another machine needs them: they choose it.
    if env::var_os("TARGET") == env::var_os("HOST") {
        config.define("CMAKE_C_FLAGS", flags("CFLAGS"));
        config.define("CMAKE_CXX_FLAGS", flags("CXXFLAGS"));
    }
    if env::var("PROFILE").as_deref() == Ok("debug") {
        // A debug build of the caller is no reason for a slow library, nor for the library's debug
        // information in every program.
        config.profile("Release");
    }
    let built = config.build().join("build");
    println!("cargo:rustc-link-search=native={}", built.display());
    println!("cargo:rustc-link-lib=static={ARCHIVE}");
    link_what_the_archive_needs(Some(&built.join("CMakeCache.txt")));
    println!("cargo:root={}", built.display());
    Found { include_dirs: vec![source.join("capi/include"), built.join("include")] }
}

/// What the user's environment asks of the compiler: for this target, else for every target.
fn flags(name: &str) -> String {
    let target = env::var("TARGET").unwrap().replace(['-', '.'], "_");
    env::var(format!("{name}_{target}")).or_else(|_| env::var(name)).unwrap_or_default()
}

/// DLPack's header as the package carries it; in the repository CMake looks for it by itself.
fn dlpack_dir(source: &Path) -> Option<PathBuf> {
    let carried = source.join("dlpack/include");
    (env::var_os("TENON_DLPACK_INCLUDE_DIR").is_none() && carried.join("dlpack/dlpack.h").exists())
        .then_some(carried)
}

/// libdeflate where CMake found it, and the C++ library.
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
