//! Tests of modules that go to archives and back.

mod common;

use std::error::Error as _;
use std::io::{self, Write};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use tenon::{
    export_module, export_module_to, import_bytes, import_file, import_module, ArenaOptions,
    Bytecode, Durability, ErrorKind, ExportOptions, ImportCheck, ImportOptions, Mode, Module,
    TensorMut, Value,
};

fn module() -> Module {
    let mut module = Module::new("Net").unwrap();
    let elements: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    module.add_parameter("weight", &TensorMut::copy_of(&elements, &[10, 100]).unwrap()).unwrap();
    module.add_attribute("name", None, "net").unwrap();
    module
        .define("def forward(self, x: Tensor) -> Tensor:\n  return torch.mul(x, self.weight)\n")
        .unwrap();
    module.set_extra_file("own", "of the module").unwrap();
    module
}

fn bytes_of(module: &Module, options: &ExportOptions<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let report = export_module_to(module, &mut bytes, options).unwrap();
    assert_eq!(report.nbytes, bytes.len() as u64);
    bytes
}

fn last(module: &Module) -> f32 {
    module.value("weight").unwrap().to_tensor().unwrap().cells::<f32>().unwrap()[999].get()
}

#[test]
fn to_a_path_and_back() {
    let folder = common::Folder::new();
    let path = folder.0.join("net.v1.pt");
    let module = module();
    let report = export_module(
        &module,
        &path,
        &ExportOptions::new().durability(Durability::FileAndDirectory),
    )
    .unwrap();
    assert_eq!(report.nbytes, std::fs::metadata(&path).unwrap().len());
    assert!(
        report.records > 4
            && report.version > 0
            && report.skipped_files == 0
            && !report.oldest_pytorch.is_empty(),
        "{report:?}"
    );
    assert_eq!(folder.names(), ["net.v1.pt"]);

    let back = import_module(&path, &ImportOptions::new()).unwrap();
    assert_eq!((last(&back), back.class_name().unwrap()), (999.0, module.class_name().unwrap()));
    assert_eq!(back.code_files().unwrap(), module.code_files().unwrap());
    assert_eq!(back.extra_files().unwrap(), module.extra_files().unwrap());
    let found = back.import_report().unwrap();
    assert_eq!(
        (u64::from(found.records), found.version, found.mapped_storages, found.mapped_nbytes),
        (report.records, report.version, 1, 4000)
    );
    assert!(back.warnings().unwrap().is_empty());
    assert_eq!(
        last(&import_file(std::fs::File::open(&path).unwrap(), &ImportOptions::new()).unwrap()),
        999.0
    );
    let error =
        export_module(&module, folder.0.join("no/file.pt"), &ExportOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(
        import_module(folder.0.join("no"), &ImportOptions::new()).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    import_module(&path, &ImportOptions::new().device_map(c"cuda:0=cpu,mps=cpu")).unwrap();
    let error = import_module(&path, &ImportOptions::new().device_map(c"cuda=mps")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn who_may_write_to_what_was_imported() {
    let folder = common::Folder::new();
    let path = folder.0.join("net.pt");
    export_module(&module(), &path, &ExportOptions::new()).unwrap();
    let tensor = |options: &ImportOptions<'_>| {
        import_module(&path, options).unwrap().value("weight").unwrap().to_tensor().unwrap()
    };

    let private = tensor(&ImportOptions::new());
    assert_eq!(private.as_slice::<f32>().unwrap_err().kind(), ErrorKind::MayChange);
    private.writable().unwrap().cells::<f32>().unwrap()[999].set(-1.0);
    // SAFETY: no other process has this file.
    let mapped = tensor(&unsafe { ImportOptions::new().mapped() });
    assert_eq!(mapped.as_slice::<f32>().unwrap()[999], 999.0);
    assert_eq!(mapped.writable().unwrap_err().kind(), ErrorKind::Permission);

    let shared = tensor(&ImportOptions::new().filled(Mode::Shared));
    assert!(shared.storage().is_shared() && shared.writable().is_ok());
    let frozen = tensor(&ImportOptions::new().filled(Mode::Frozen).check(ImportCheck::All));
    assert_eq!(
        (frozen.storage().mode(), frozen.as_slice::<f32>().unwrap()[999]),
        (Mode::Frozen, 999.0)
    );
    let arena = ArenaOptions::new().capacity(1 << 20).create().unwrap();
    let born = tensor(&ImportOptions::new().filled_in(&arena));
    assert_eq!((arena.stats().unwrap().blocks_live, born.numel()), (1, 1000));
}

#[test]
fn the_owner_of_bytes_goes_last() {
    struct Owner(Vec<u8>, Arc<AtomicBool>);
    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    impl Drop for Owner {
        fn drop(&mut self) {
            self.1.store(true, Ordering::SeqCst);
        }
    }
    let gone = Arc::new(AtomicBool::new(false));
    let bytes = bytes_of(&module(), &ExportOptions::new());
    let back = import_bytes(Owner(bytes.clone(), gone.clone()), &ImportOptions::new()).unwrap();
    let weight = back.value("weight").unwrap().to_tensor().unwrap();
    drop(back);
    assert!(!gone.load(Ordering::SeqCst));
    assert_eq!(weight.as_slice::<f32>().unwrap()[999], 999.0);
    drop(weight);
    assert!(gone.swap(false, Ordering::SeqCst));

    let error =
        import_bytes(Owner(bytes[..bytes.len() / 2].to_vec(), gone.clone()), &ImportOptions::new())
            .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
    assert!(gone.load(Ordering::SeqCst));
    let error = import_bytes(bytes, &ImportOptions::new().max_records(2)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error:?}");
}

struct Fails(io::Error, usize);

impl Write for Fails {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.1 > 0 {
            self.1 -= 1;
            return Ok(bytes.len());
        }
        Err(std::mem::replace(&mut self.0, io::Error::other("again")))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_error_of_the_writer_comes_back() {
    let mut module = module();
    module.add_buffer("large", &TensorMut::zeros::<u8>(&[3 << 20]).unwrap()).unwrap();
    for pieces in [0, 2] {
        let error = export_module_to(
            &module,
            Fails(io::Error::other("the writer's own words"), pieces),
            &ExportOptions::new(),
        )
        .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error:?}");
        let source = error.source().unwrap().downcast_ref::<io::Error>().unwrap();
        assert_eq!(source.to_string(), "the writer's own words");
    }
    let no_space = Fails(io::Error::from_raw_os_error(28), 0);
    let error = export_module_to(&module, no_space, &ExportOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceExhausted, "{error:?}");
    assert!(format!("{error:?}").contains("source"));
    // The module is not changed.
    assert_eq!(
        last(
            &import_bytes(bytes_of(&module, &ExportOptions::new()), &ImportOptions::new()).unwrap()
        ),
        999.0
    );
}

#[test]
fn a_panic_of_the_writer_goes_on() {
    struct Panics;
    impl Write for Panics {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            panic!("in the writer");
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut module = module();
    let panic =
        catch_unwind(AssertUnwindSafe(|| export_module_to(&module, Panics, &ExportOptions::new())))
            .unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"in the writer"));
    module.set("name", "changed").unwrap();
    assert_eq!(module.value("name").unwrap().as_str().unwrap(), "changed");
}

#[test]
fn extra_files_and_their_hook() {
    let module = module();
    let look = |asked: &Module| {
        assert_eq!(asked, &module);
        assert!(asked.find("weight").is_ok());
        Ok(vec![
            ("hooked".to_owned(), b"from the hook".to_vec()),
            ("own".to_owned(), b"left out".to_vec()),
        ])
    };
    let mut bytes = Vec::new();
    let options = ExportOptions::new()
        .extra_file("given", "of this export")
        .extra_files_hook(&look)
        .archive_name("folder");
    let report = export_module_to(&module, &mut bytes, &options).unwrap();
    assert_eq!(report.skipped_files, 1);
    let mut files = import_bytes(bytes, &ImportOptions::new()).unwrap().extra_files().unwrap();
    files.sort();
    let text: Vec<_> = files
        .iter()
        .map(|(name, data)| (name.as_str(), std::str::from_utf8(data).unwrap()))
        .collect();
    assert_eq!(
        text,
        [("given", "of this export"), ("hooked", "from the hook"), ("own", "of the module")]
    );

    let fails = |_: &Module| Err(io::Error::other("no files today").into());
    let error =
        export_module_to(&module, io::sink(), &ExportOptions::new().extra_files_hook(&fails))
            .unwrap_err();
    assert_eq!(
        (error.kind(), error.source().unwrap().to_string().as_str()),
        (ErrorKind::Io, "no files today")
    );
    let wrong = |_: &Module| Ok(vec![("a\0b".to_owned(), Vec::new())]);
    let error =
        export_module_to(&module, io::sink(), &ExportOptions::new().extra_files_hook(&wrong))
            .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);

    let panics = |_: &Module| panic!("in the hook");
    let panic = catch_unwind(AssertUnwindSafe(|| {
        export_module_to(&module, io::sink(), &ExportOptions::new().extra_files_hook(&panics))
    }));
    assert_eq!(panic.unwrap_err().downcast_ref::<&str>(), Some(&"in the hook"));
}

#[test]
fn what_a_callback_may_do() {
    let module = module();
    let mut alias = module.clone();
    let hook = |_: &Module| {
        let handle = module.clone();
        assert_eq!(handle.clone().set("name", "x").unwrap_err().kind(), ErrorKind::Permission);
        // The callback uses another tree, in another thread.
        std::thread::scope(|scope| {
            scope
                .spawn(|| Module::new("Other").unwrap().add_attribute("n", None, 1).unwrap())
                .join()
                .unwrap()
        });
        Ok(Vec::new())
    };
    bytes_of(&module, &ExportOptions::new().extra_files_hook(&hook));
    alias.set("name", "after it").unwrap();
    assert_eq!(module.value("name").unwrap().as_str().unwrap(), "after it");
}

#[test]
fn code_that_pytorch_would_refuse() {
    let mut module = module();
    module
        .define("def f(self, x: Tensor) -> Tensor:\n  return torch.no_such_operator(x)\n")
        .unwrap();
    let error = export_module_to(&module, io::sink(), &ExportOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.detail("excerpt").is_some() && error.source().is_none(), "{error:?}");
    bytes_of(&module, &ExportOptions::new().unchecked());
    assert_eq!(
        export_module_to(&module, io::sink(), &ExportOptions::new().file_version(99))
            .unwrap_err()
            .kind(),
        ErrorKind::InvalidArgument
    );
}

#[test]
fn a_large_tensor_in_pieces() {
    let mut module = Module::new("Large").unwrap();
    let elements: Vec<u8> = (0..5_000_001u32).map(|i| (i % 251) as u8).collect();
    module.add_buffer("bytes", &TensorMut::copy_of(&elements, &[5_000_001]).unwrap()).unwrap();
    let bytes = bytes_of(&module, &ExportOptions::new());
    let back = import_bytes(bytes, &ImportOptions::new().check(ImportCheck::All)).unwrap();
    assert_eq!(
        back.value("bytes").unwrap().to_tensor().unwrap().as_slice::<u8>().unwrap(),
        elements
    );
}

#[test]
fn bytecode_of_some_methods_and_of_all() {
    let mut module = module();
    module
        .define("def both(self, x: Tensor) -> Tensor:\n  return torch.add(self.forward(x), x)\n")
        .unwrap();
    let functions = |module: &Module, options: &ExportOptions<'_>| {
        export_module_to(module, io::sink(), options)
            .map(|report| report.bytecode_functions)
            .map_err(|error| error.kind())
    };
    let compile = ExportOptions::new().bytecode(Bytecode::Compile);
    assert_eq!(functions(&module, &ExportOptions::new()), Ok(0));
    assert_eq!(functions(&module, &compile), Ok(2));
    let bytes = bytes_of(&module, &compile.clone().methods(&["forward"]));
    let back = import_bytes(bytes, &ImportOptions::new()).unwrap();
    assert_eq!(functions(&back, &ExportOptions::new()), Ok(1));
    assert_eq!(functions(&back, &ExportOptions::new().bytecode(Bytecode::Drop)), Ok(0));
    assert_eq!(functions(&back, &compile.clone().methods(&["forward", "both"])), Ok(2));
    for (methods, kind) in [
        ("no", ErrorKind::NotFound),
        ("", ErrorKind::InvalidArgument),
        ("a\0", ErrorKind::InvalidArgument),
    ] {
        assert_eq!(
            functions(&module, &compile.clone().methods(&[methods])),
            Err(kind),
            "{methods:?}"
        );
        assert_eq!(module.opnames(&[methods]).unwrap_err().kind(), kind, "{methods:?}");
    }
    assert_eq!(
        functions(&module, &ExportOptions::new().methods(&["forward"])),
        Err(ErrorKind::InvalidArgument)
    );

    assert_eq!(module.opnames(&[]).unwrap(), ["aten::add.Tensor", "aten::mul.Tensor"]);
    assert_eq!(
        module.opnames(&["forward", "both"]).unwrap(),
        ["aten::add.Tensor", "aten::mul.Tensor"]
    );
    assert_eq!(module.opnames(&["forward"]).unwrap(), ["aten::mul.Tensor"]);
}

#[test]
fn a_forked_function_runs_at_once_if_asked() {
    let mut module = Module::new("Forks").unwrap();
    module
        .define(
            "def forward(self, x: Tensor) -> Tensor:\n  return torch.wait(fork(torch.neg, x))\n",
        )
        .unwrap();
    let compile = ExportOptions::new().bytecode(Bytecode::Compile);
    let error = export_module_to(&module, io::sink(), &compile).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    export_module_to(&module, io::sink(), &compile.emit_forks_at_once()).unwrap();
}

#[test]
fn what_the_bytecode_looks_like() {
    let mut module = Module::new("Dims").unwrap();
    module
        .define("def forward(self, x: Tensor) -> Tensor:\n  return torch.add(x, torch.dim(x))\n")
        .unwrap();
    let compile = ExportOptions::new().bytecode(Bytecode::Compile);
    let plain = bytes_of(&module, &compile);
    let same =
        compile.clone().bytecode_version(8).emit_defaults_before_out().emit_no_interface_methods();
    assert_eq!(bytes_of(&module, &same), plain);
    let inputs = bytes_of(&module, &compile.clone().emit_default_inputs());
    let operators = bytes_of(&module, &compile.clone().emit_plain_operators());
    assert!(inputs != plain && operators != plain && inputs != operators);
    for version in [3, 9] {
        let error =
            export_module_to(&module, io::sink(), &compile.clone().bytecode_version(version))
                .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn debug_tables_of_pytorch() {
    let path = std::path::Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../tests/peers/golden/lite/mlp-2.15.ptl"
    ));
    if !path.exists() {
        return; // the archive is in the repository, and not in a packaged crate
    }
    let with = ExportOptions::new().debug_tables();
    let module = import_module(path, &ImportOptions::new().debug_tables()).unwrap();
    let report = export_module_to(&module, io::sink(), &with).unwrap();
    assert_eq!((report.debug_tables, report.bytecode_functions), (6, 1));
    assert_eq!(
        export_module_to(&module, io::sink(), &ExportOptions::new()).unwrap().debug_tables,
        0
    );
    let without = import_module(path, &ImportOptions::new()).unwrap();
    assert_eq!(export_module_to(&without, io::sink(), &with).unwrap().debug_tables, 0);
    let mut written = Vec::new();
    let report =
        export_module_to(&module, &mut written, &ExportOptions::new().flatbuffer()).unwrap();
    assert_eq!((&written[4..8], report.nbytes), (&b"PTMF"[..], written.len() as u64));
    let back = import_bytes(written, &ImportOptions::new()).unwrap();
    assert_eq!(back.tensors().unwrap().len(), module.tensors().unwrap().len());
}

/// The code of a flatbuffer is checked when the module is first used.
#[test]
fn bad_code_of_a_flatbuffer() {
    let mut module = Module::new("Net").unwrap();
    module.define("def forward(self) -> int:\n  return 1\n").unwrap();
    let mut written = Vec::new();
    export_module_to(&module, &mut written, &ExportOptions::new().flatbuffer()).unwrap();
    let name = b"def forward";
    let place = written.windows(name.len()).position(|text| text == name).unwrap();
    written[place + 1] = b'x';
    let bad = import_bytes(written.clone(), &ImportOptions::new()).unwrap();
    for error in
        [bad.class_name().unwrap_err(), bad.members().unwrap_err(), bad.object().unwrap_err()]
    {
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }
    let same = &bad;
    assert!(*same == bad && bad != module);
    assert!(format!("{bad:?}").contains("__torch__.py"));
    let all = ImportOptions::new().check(ImportCheck::All);
    assert_eq!(import_bytes(written, &all).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn sharing_stays() {
    let mut module = Module::new("Net").unwrap();
    let shared = Value::list(Some("List[int]"), [1]).unwrap();
    module.add_attribute("a", Some("List[int]"), &shared).unwrap();
    module.add_attribute("b", Some("List[int]"), &shared).unwrap();
    let back =
        import_bytes(bytes_of(&module, &ExportOptions::new()), &ImportOptions::new()).unwrap();
    assert!(back.value("a").unwrap().is_same(&back.value("b").unwrap()));
}
