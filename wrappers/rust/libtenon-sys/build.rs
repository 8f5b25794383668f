//! Finds libtenon, and tells the crates above where it is (`DEP_TENON_ROOT`, `DEP_TENON_INCLUDE`).
//! It looks in this order:
//!
//! 1. `TENON_LIB_DIR` is the folder of libtenon.so (or of libtenon.a). If it is set and has no
//!    library, that is an error, and the search ends. `TENON_INCLUDE_DIR` names the headers of that
//!    library (several folders with `:` between them).
//! 2. pkg-config, if the installed library has the version of this crate.
//! 3. The sources of the C++ library, in `vendor/` of the package or around it in the repository.
//!    CMake builds them as an archive.

use std::env;
use std::path::{Path, PathBuf};

mod build {
    #[cfg(feature = "bindgen")]
    pub mod bindings;
    pub mod vendored;
}

/// The folders of the headers, if they are known.
pub struct Found {
    include_dirs: Vec<PathBuf>,
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=build");
    println!("cargo:rerun-if-env-changed=TENON_LIB_DIR");
    println!("cargo:rerun-if-env-changed=TENON_INCLUDE_DIR");
    println!("cargo:rerun-if-env-changed=TENON_DLPACK_INCLUDE_DIR");
    // Miri runs no foreign code, and docs.rs does not link: neither needs the library.
    if env::var_os("CARGO_CFG_MIRI").is_some() || env::var_os("DOCS_RS").is_some() {
        return;
    }
    let found = by_environment().or_else(by_pkg_config).unwrap_or_else(build::vendored::build);
    if let Some(first) = found.include_dirs.first() {
        println!("cargo:include={}", first.display());
    }
    #[cfg(feature = "bindgen")]
    build::bindings::write(&found.include_dirs);
}

fn by_environment() -> Option<Found> {
    let dir = PathBuf::from(env::var_os("TENON_LIB_DIR")?);
    let include_dirs: Vec<PathBuf> = match env::var_os("TENON_INCLUDE_DIR") {
        Some(dirs) => env::split_paths(&dirs).collect(),
        None => Vec::new(),
    };
    let shared = dir.join("libtenon.so");
    let archive = dir.join("libtenon.a");
    if shared.exists() {
        println!("cargo:rerun-if-changed={}", shared.display());
        println!("cargo:rustc-link-lib=dylib=tenon");
    } else if archive.exists() {
        println!("cargo:rerun-if-changed={}", archive.display());
        println!("cargo:rustc-link-lib=static=tenon");
        build::vendored::link_what_the_archive_needs(None);
    } else {
        panic!(
            "TENON_LIB_DIR is {}, and there is neither libtenon.so nor libtenon.a in it",
            dir.display()
        );
    }
    println!("cargo:rustc-link-search=native={}", dir.display());
    println!("cargo:root={}", dir.display());
    Some(Found { include_dirs })
}

fn by_pkg_config() -> Option<Found> {
    if cfg!(feature = "vendored") {
        return None;
    }
    let (major, minor) = (
        env::var("CARGO_PKG_VERSION_MAJOR").unwrap(),
        env::var("CARGO_PKG_VERSION_MINOR").unwrap(),
    );
    let next: u32 = minor.parse::<u32>().unwrap() + 1;
    // Before version 1.0 a new minor version may change the header.
    let library = pkg_config::Config::new()
        .range_version(format!("{major}.{minor}").as_str()..format!("{major}.{next}").as_str())
        .probe("tenon")
        .ok()?;
    if let Some(dir) = library.link_paths.first() {
        println!("cargo:root={}", dir.display());
    }
    Some(Found { include_dirs: library.include_paths })
}

/// Returns the folder with the C++ library's CMakeLists.txt.
pub fn source_dir() -> PathBuf {
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap());
    for place in [package.join("vendor"), package.join("../../..")] {
        if place.join("capi/include/tenon/tenon.h").exists()
            && place.join("CMakeLists.txt").exists()
        {
            return place.canonicalize().unwrap();
        }
    }
    panic!(
        "libtenon is not in TENON_LIB_DIR, pkg-config does not know a tenon {}.{}, and {} has no \
         sources of it",
        env::var("CARGO_PKG_VERSION_MAJOR").unwrap(),
        env::var("CARGO_PKG_VERSION_MINOR").unwrap(),
        Path::new("vendor").display()
    );
}
