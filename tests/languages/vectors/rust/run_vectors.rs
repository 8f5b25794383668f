//! usage: run_vectors FOLDER. It executes the cases of FOLDER/cases.json with the Rust wrapper
//!        (tests/languages/vectors/README.md).

mod arenas;
#[path = "../../composite_parts.rs"]
mod composite_parts;
mod composites;
mod cuda;
mod objects;

use std::ffi::CStr;
use std::fs;
use std::io::{stdout, Write};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;
use tenon::{
    Access, DType, Descriptor, ErrorKind, FilenameHandle, FilenameOptions, Flags, Index, Message,
    OpenOptions, Storage, StorageMut, StorageOptions, TensorMut, TensorSpec,
};

/// Why a case is not ok.
enum Not {
    Wrong(String),
    Skip(String),
}

type Outcome<T = ()> = Result<T, Not>;

fn wrong<T>(text: impl Into<String>) -> Outcome<T> {
    Err(Not::Wrong(text.into()))
}

impl From<tenon::Error> for Not {
    fn from(error: tenon::Error) -> Not {
        Not::Wrong(format!("{}: {error}", error.kind().code_name()))
    }
}

impl From<std::io::Error> for Not {
    fn from(error: std::io::Error) -> Not {
        Not::Wrong(error.to_string())
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: T, wanted: T) -> Outcome {
    if got == wanted {
        Ok(())
    } else {
        wrong(format!("{what} is {got:?}, not {wanted:?}"))
    }
}

// Functions that read the parts of a case. An absent part is Value::Null.

fn known(expect: &Value, keys: &[&str]) -> Outcome {
    match expect
        .as_object()
        .and_then(|expect| expect.keys().find(|key| !keys.contains(&key.as_str())))
    {
        Some(key) => wrong(format!("unknown expectation {key}")),
        None => Ok(()),
    }
}

fn text(value: &Value) -> Outcome<&str> {
    value.as_str().map_or_else(|| wrong(format!("{value} is no text")), Ok)
}

fn number(value: &Value) -> Outcome<i64> {
    value.as_i64().map_or_else(|| wrong(format!("{value} is no number")), Ok)
}

fn unsigned(value: &Value) -> Outcome<u64> {
    value.as_u64().map_or_else(|| wrong(format!("{value} is no number >= 0")), Ok)
}

fn array(value: &Value) -> Outcome<&Vec<Value>> {
    value.as_array().map_or_else(|| wrong(format!("{value} is no array")), Ok)
}

fn numbers(value: &Value) -> Outcome<Vec<i64>> {
    array(value)?.iter().map(number).collect()
}

fn hex(value: &Value) -> Outcome<Vec<u8>> {
    let text = text(value)?;
    (0..text.len())
        .step_by(2)
        .map(|at| {
            u8::from_str_radix(&text[at..at + 2], 16).map_err(|error| Not::Wrong(error.to_string()))
        })
        .collect()
}

fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn dtype_of(value: &Value) -> Outcome<DType> {
    match numbers(value)?.as_slice() {
        [code, bits, lanes] => {
            Ok(DType { code: *code as u8, bits: *bits as u8, lanes: *lanes as u16 })
        }
        _ => wrong(format!("{value} is no dtype")),
    }
}

fn name_of(value: &Value, repeat: usize) -> Outcome<Option<String>> {
    if value.is_null() {
        return Ok(None);
    }
    String::from_utf8(hex(value)?.repeat(repeat))
        .map(Some)
        .map_err(|_| Not::Skip("a &str of Rust's cannot hold invalid UTF-8".into()))
}

fn times(value: &Value) -> usize {
    value.as_u64().unwrap_or(1) as usize
}

/// Returns the result of the call, or None if it failed as it should.
fn outcome<T>(expect: &Value, result: tenon::Result<T>) -> Outcome<Option<T>> {
    let wanted = text(&expect["status"])?;
    match result {
        Ok(value) => same("status", "OK", wanted).map(|()| Some(value)),
        Err(error) => {
            same("status", error.kind().code_name(), wanted)?;
            if error.message().is_empty() || error.message().contains('\n') {
                return wrong(format!("no message of one line: {:?}", error.message()));
            }
            for (key, value) in expect["details"].as_object().into_iter().flatten() {
                same(&format!("detail {key}"), error.detail(key), value.as_str())?;
            }
            Ok(None)
        }
    }
}

fn tensor_of(storage: &StorageMut, case: &Value) -> Outcome<tenon::Result<TensorMut>> {
    let sizes = numbers(&case["sizes"])?;
    let strides = if case["strides"].is_null() { None } else { Some(numbers(&case["strides"])?) };
    let flags = Flags::from_raw(case["flags"].as_u64().unwrap_or(0) as u32);
    let mut spec = TensorSpec::new(dtype_of(&case["dtype"])?, &sizes)
        .offset(case["offset"].as_u64().unwrap_or(0))
        .flags(flags);
    if let Some(strides) = &strides {
        spec = spec.strides(strides);
    }
    Ok(TensorMut::new(storage, &spec))
}

fn same_bytes(mut got: Vec<u8>, expect: &Value) -> Outcome {
    let mut wanted = hex(&expect["bytes"])?;
    same("length", got.len(), wanted.len())?;
    for range in expect["mask"].as_array().into_iter().flatten() {
        let range = numbers(range)?;
        got[range[0] as usize..range[1] as usize].fill(0);
        wanted[range[0] as usize..range[1] as usize].fill(0);
    }
    match got.iter().zip(&wanted).position(|(got, wanted)| got != wanted) {
        Some(at) => wrong(format!("byte {at} is {:#04x}, not {:#04x}", got[at], wanted[at])),
        None => Ok(()),
    }
}

fn first_bytes(storage: &Storage, start: u64, count: usize) -> Outcome<String> {
    let mut bytes = vec![0; count.min((storage.nbytes() - start) as usize)];
    storage.read(start, &mut bytes)?;
    Ok(hex_of(&bytes))
}

fn run_status(case: &Value) -> Outcome {
    let (code, name) = (number(&case["status"])? as i32, text(&case["name"])?);
    // The wrapper has no words for OK and for a number that is no code.
    // SAFETY: static storage, never NULL.
    same(
        "name",
        unsafe { CStr::from_ptr(tenon::sys::tenon_status_name(code)) }.to_str().unwrap_or_default(),
        name,
    )?;
    let kind = ErrorKind::from_code(code);
    if name == "OK" || name == "UNKNOWN" {
        return same("kind", kind, None);
    }
    let Some(kind) = kind else { return wrong("there is no kind for it") };
    same("code of the kind", kind.code(), code)?;
    same("name of the kind", kind.code_name(), name)?;
    match (1..32).find(|other| *other != code && ErrorKind::from_code(*other) == Some(kind)) {
        Some(other) => wrong(format!("{kind:?} belongs to {other} too")),
        None => Ok(()),
    }
}

fn run_dtype(case: &Value) -> Outcome {
    let expect = &case["expect"];
    known(expect, &["status", "nbytes", "details"])?;
    let (name, dtype) = (text(&case["name"])?, dtype_of(&case["dtype"])?);
    if !name.is_empty() {
        same("dtype of the name", name.parse::<DType>()?, dtype)?;
        same("name of the dtype", dtype.to_string().as_str(), name)?;
    }
    let storage = StorageMut::new(4096)?;
    if let Some(tensor) = outcome(
        expect,
        TensorMut::new(&storage, &TensorSpec::new(dtype, &[number(&case["numel"])?])),
    )? {
        same("nbytes", tensor.nbytes(), unsigned(&expect["nbytes"])?)?;
        same("dtype", tensor.dtype(), dtype)?;
    }
    Ok(())
}

fn run_layout(case: &Value) -> Outcome {
    let expect = &case["expect"];
    known(expect, &["status", "numel", "nbytes", "strides", "contiguous", "details"])?;
    let storage = StorageMut::new(unsigned(&case["storage_nbytes"])?)?;
    if let Some(tensor) = outcome(expect, tensor_of(&storage, case)?)? {
        same("numel", tensor.numel(), unsigned(&expect["numel"])?)?;
        same("nbytes", tensor.nbytes(), unsigned(&expect["nbytes"])?)?;
        same("contiguous", Some(tensor.is_contiguous()), expect["contiguous"].as_bool())?;
        same("strides", tensor.strides(), &numbers(&expect["strides"])?)?;
        same("sizes", tensor.sizes(), &numbers(&case["sizes"])?)?;
        same("offset", tensor.offset(), case["offset"].as_u64().unwrap_or(0))?;
    }
    Ok(())
}

fn index_item(item: &Value) -> Outcome<Index> {
    let given = numbers(item)?;
    Ok(match given[0] {
        0 => Index::Number(given[1]),
        1 => Index::Slice { start: Some(given[1]), stop: Some(given[2]), step: given[3] },
        2 => Index::NewAxis,
        _ => Index::Ellipsis,
    })
}

fn run_view(case: &Value) -> Outcome {
    let expect = &case["expect"];
    known(expect, &["status", "dtype", "sizes", "strides", "offset", "flags", "details"])?;
    let storage = StorageMut::new(unsigned(&case["storage_nbytes"])?)?;
    let tensor = tensor_of(&storage, case)??;
    let made = if !case["reshape"].is_null() {
        tensor.reshape(&numbers(&case["reshape"])?)
    } else if !case["view_dtype"].is_null() {
        tensor.view_dtype(dtype_of(&case["view_dtype"])?)
    } else {
        let items: Vec<_> =
            array(&case["index"])?.iter().map(index_item).collect::<Outcome<_>>()?;
        tensor.index(&items)
    };
    if let Some(view) = outcome(expect, made)? {
        same("dtype", view.dtype(), dtype_of(&expect["dtype"])?)?;
        same("sizes", view.sizes(), &numbers(&expect["sizes"])?)?;
        same("strides", view.strides(), &numbers(&expect["strides"])?)?;
        same("offset", view.offset(), unsigned(&expect["offset"])?)?;
        same("flags", u64::from(view.flags().bits()), unsigned(&expect["flags"])?)?;
    }
    Ok(())
}

fn run_message(case: &Value) -> Outcome {
    let expect = &case["expect"];
    known(expect, &["status", "count", "find", "details"])?;
    let names: Vec<_> = array(&case["names"])?
        .iter()
        .map(|name| name_of(name, times(&case["name_repeat"])))
        .collect::<Outcome<_>>()?;
    let user = if case["user"].is_null() {
        Vec::new()
    } else {
        hex(&case["user"])?.repeat(times(&case["user_repeat"]))
    };
    let tensors: Vec<_> =
        names.iter().map(|_| TensorMut::zeros::<u8>(&[1])).collect::<tenon::Result<_>>()?;
    let mut message = Message::new()?;
    let mut fill = || {
        message.add_all(names.iter().map(Option::as_ref).zip(&tensors), Access::Auto)?;
        if user.is_empty() {
            Ok(())
        } else {
            message.set_user_bytes(&user)
        }
    };
    if outcome(expect, fill())?.is_none() {
        return Ok(());
    }
    same("count", message.len() as u64, unsigned(&expect["count"])?)?;
    for (index, name) in names.iter().enumerate() {
        same("name", message.name(index), name.as_deref())?;
    }
    same("user bytes", message.user_bytes(), &user)?;
    for pair in expect["find"].as_array().into_iter().flatten() {
        let wanted = usize::try_from(number(&pair[1])?).ok();
        let name = name_of(&pair[0], 1)?.unwrap_or_default();
        let found = message.find(&name).map(|tensor| tensor.storage().id());
        match wanted {
            None => same("found", found, None)?,
            Some(index) => same(
                "found",
                found,
                Some(tensors.get(index).map_or(0, |tensor| tensor.storage().id())),
            )?,
        }
    }
    Ok(())
}

fn run_encode(case: &Value) -> Outcome {
    known(&case["expect"], &["bytes", "mask"])?;
    let isolated = StorageOptions::new().isolated();
    let storages: Vec<_> = array(&case["storages"])?
        .iter()
        .map(|nbytes| Ok(isolated.create(unsigned(nbytes)?)?))
        .collect::<Outcome<_>>()?;
    let mut message = Message::new()?;
    for spec in array(&case["tensors"])? {
        let tensor = tensor_of(&storages[unsigned(&spec["storage"])? as usize], spec)??;
        message.add(name_of(&spec["name"], 1)?.as_deref(), &tensor)?;
    }
    message.set_user_bytes(&hex(&case["user"])?)?;
    same_bytes(Descriptor::new(&message)?.bytes().to_vec(), &case["expect"])
}

fn access_of(case: &Value) -> Access {
    match case["access"].as_str() {
        Some("read_only") => Access::ReadOnly,
        Some("writable") => Access::Writable,
        _ => Access::Auto,
    }
}

fn options_of(case: &Value) -> OpenOptions {
    match case["allow_unsealed"].as_bool() {
        Some(true) => OpenOptions::new().allow_unsealed(),
        _ => OpenOptions::new(),
    }
}

fn run_descriptor(case: &Value) -> Outcome {
    let expect = &case["expect"];
    known(expect, &["status", "details", "tensors", "user"])?;
    // SAFETY: the program that started the runner gave it these fds.
    let fds: Vec<_> = numbers(&case["fds"])?
        .iter()
        .map(|fd| unsafe { BorrowedFd::borrow_raw(*fd as i32) })
        .collect();
    let opened = Descriptor::open(&hex(&case["bytes"])?, &fds, access_of(case), options_of(case));
    let Some(message) = outcome(expect, opened)? else { return Ok(()) };
    same("user bytes", hex_of(message.user_bytes()).as_str(), text(&expect["user"])?)?;
    let (views, wanted) = (message.views(), array(&expect["tensors"])?);
    same("count", views.len(), wanted.len())?;
    for (view, wanted) in views.iter().zip(wanted) {
        for (key, value) in wanted.as_object().into_iter().flatten() {
            let got = match key.as_str() {
                "name" => view.name().map(|name| hex_of(name.as_bytes())).into(),
                "dtype" => {
                    vec![view.dtype().code.into(), view.dtype().bits.into(), view.dtype().lanes]
                        .into()
                }
                "sizes" => view.sizes().into(),
                "strides" => view.strides().into(),
                "offset" => view.offset().into(),
                "flags" => view.flags().bits().into(),
                "numel" => view.numel().into(),
                "nbytes" => view.nbytes().into(),
                "contiguous" => view.is_contiguous().into(),
                "read_only" => view.is_read_only().into(),
                "data" => {
                    let start = view.offset() * u64::from(view.dtype().bits_of_element()) / 8;
                    first_bytes(&view.to_tensor().storage(), start, text(value)?.len() / 2)?.into()
                }
                _ => return wrong(format!("unknown expectation {key}")),
            };
            same(key, &got, value)?;
        }
    }
    Ok(())
}

fn count_in(path: &str) -> Outcome<i64> {
    let data = fs::read(path)?;
    Ok(i32::from_le_bytes(
        data[..4].try_into().map_err(|_| Not::Wrong("a file of less than 4 bytes".into()))?,
    )
    .into())
}

fn run_named_file(case: &Value) -> Outcome {
    let expect = &case["expect"];
    known(
        expect,
        &["status", "details", "nbytes", "data", "read_only", "sealed", "mode", "count"],
    )?;
    let path = text(&case["path"])?;
    let handle = FilenameHandle {
        offset: unsigned(&case["offset"])?,
        ..FilenameHandle::new(path, unsigned(&case["nbytes"])?)
    };
    let opened = match access_of(case) {
        Access::ReadOnly => handle.open_read_only(options_of(case), None),
        Access::Writable => handle.open_writable(options_of(case), None).map(Storage::from),
        _ => handle.open(options_of(case), None),
    };
    let Some(storage) = outcome(expect, opened)? else { return Ok(()) };
    same("nbytes", storage.nbytes(), unsigned(&expect["nbytes"])?)?;
    let data = text(&expect["data"])?;
    same("data", first_bytes(&storage, 0, data.len() / 2)?.as_str(), data)?;
    same("read_only", Some(storage.is_read_only()), expect["read_only"].as_bool())?;
    same("sealed", Some(storage.is_sealed()), expect["sealed"].as_bool())?;
    same("mode", format!("{:?}", storage.mode()).to_uppercase().as_str(), text(&expect["mode"])?)?;
    same("count", count_in(path)?, number(&expect["count"])?)?;
    drop(storage);
    same("count after the release", count_in(path)?, number(&expect["count"])? - 1)
}

fn run_new_named_file(case: &Value) -> Outcome {
    let expect = &case["expect"];
    known(expect, &["status", "details", "bytes", "mask"])?;
    let (directory, name) = (text(&case["directory"])?, text(&case["name"])?);
    let made = StorageMut::new_filename(
        &FilenameOptions::new().directory(directory).name(name),
        unsigned(&case["nbytes"])?,
    );
    let Some(storage) = outcome(expect, made)? else { return Ok(()) };
    storage.write(0, &hex(&case["payload"])?)?;
    let path = Path::new(directory).join(name);
    same_bytes(fs::read(&path)?, expect)?;
    drop(storage);
    same("file after the release", path.exists(), false)
}

fn run(case: &Value) -> Outcome {
    if let Some(why) = cuda::missing(case)? {
        return Err(Not::Skip(why));
    }
    match text(&case["kind"])? {
        "status" => run_status(case),
        "dtype" => run_dtype(case),
        "layout" => run_layout(case),
        "view" => run_view(case),
        "message" => run_message(case),
        "composite" => composites::run_composite(case),
        "object" => objects::run_object(case),
        "encode" => run_encode(case),
        "descriptor" => run_descriptor(case),
        "named_file" => run_named_file(case),
        "arena" => arenas::run_arena(case),
        "lease" => arenas::run_lease(case),
        "new_named_file" => run_new_named_file(case),
        "cuda_counter" => cuda::run_cuda_counter(case),
        "cuda_open" => cuda::run_cuda_open(case),
        "cuda_share" => cuda::run_cuda_share(case),
        "cuda_event" => cuda::run_cuda_event(case),
        "cuda_module" => cuda::run_cuda_module(case),
        "cuda_arena" => cuda::run_cuda_arena(case),
        kind => wrong(format!("unknown kind {kind}")),
    }
}

fn main() -> ExitCode {
    let folder = std::env::args().nth(1).expect("usage: run_vectors FOLDER");
    let cases = fs::read_to_string(Path::new(&folder).join("cases.json")).expect("cases.json");
    let cases: Vec<Value> = serde_json::from_str(&cases).expect("an array of cases");
    let mut failed = false;
    for case in &cases {
        let id = case["id"].as_str().unwrap_or("?");
        let line = match run(case) {
            Ok(()) => format!("ok {id}"),
            Err(Not::Skip(reason)) => format!("skip {id} {reason}"),
            Err(Not::Wrong(reason)) => {
                failed = true;
                format!("FAIL {id} {}", reason.replace('\n', " "))
            }
        };
        println!("{line}");
        let _ = stdout().flush();
    }
    ExitCode::from(u8::from(failed))
}
