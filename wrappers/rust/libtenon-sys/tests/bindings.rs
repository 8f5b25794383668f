//! Tests that the committed declarations are what bindgen makes from the headers today, and that
//! the linked library has their ABI.

#[cfg(feature = "bindgen")]
#[test]
fn committed_file_is_fresh() {
    let fresh = std::fs::read_to_string(env!("TENON_SYS_BINDINGS")).unwrap();
    let committed = include_str!("../src/bindings.rs");
    if let Some((number, (old, new))) =
        committed.lines().zip(fresh.lines()).enumerate().find(|(_, (old, new))| old != new)
    {
        panic!("src/bindings.rs is not fresh: line {} is {old:?} and would be {new:?}: run update-bindings.sh", number + 1);
    }
    assert_eq!(
        committed.len(),
        fresh.len(),
        "src/bindings.rs is not fresh: run update-bindings.sh"
    );
}

#[test]
fn library_has_the_abi_of_the_declarations() {
    // SAFETY: the call takes no argument and is allowed at any time (version.h).
    assert_eq!(unsafe { tenon_sys::tenon_abi_version() }, tenon_sys::TENON_ABI_VERSION);
}

#[test]
fn every_exported_function_is_declared() {
    let committed = include_str!("../src/bindings.rs");
    let declared: Vec<&str> = committed
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub fn ")?.split('(').next())
        .collect();
    // The list of exports is in the repository, but not in a packaged crate.
    let Ok(exports) = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../capi/abi/exports.txt"
    )) else {
        return;
    };
    let exported: Vec<&str> =
        exports.lines().filter_map(|line| line.split_once('@').map(|(name, _)| name)).collect();
    assert!(exported.len() > 50);
    for name in &exported {
        assert!(declared.contains(name), "{name} is exported and not declared");
    }
    for name in &declared {
        assert!(exported.contains(name), "{name} is declared and not exported");
    }
}
