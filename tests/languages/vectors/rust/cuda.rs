//! Device memory. It comes from an archive that is imported to the device. That needs no function
//! of the driver.

use std::ptr::null_mut;
use std::time::Duration;

use serde_json::Value;
use tenon::{
    cuda_available, export_module_to, import_bytes, release_cuda_counter, CudaArenaOptions,
    CudaEvent, CudaEventOptions, CudaForm, CudaHandle, CudaOptions, CudaTransport, ExportOptions,
    ImportOptions, Module, Storage, StorageMut, TensorMut, TensorSpec,
};

use crate::{
    array, first_bytes, hex, hex_of, known, number, outcome, same, text, unsigned, wrong, Outcome,
};

/// Returns why a case cannot run here, or None.
pub(crate) fn missing(case: &Value) -> Outcome<Option<String>> {
    match case["requires"].as_str() {
        None => Ok(None),
        Some("cuda") => Ok(cuda_available().err().map(|error| format!("requires cuda: {error}"))),
        Some(other) => wrong(format!("unknown requirement {other}")),
    }
}

fn flag(value: &Value) -> Outcome<bool> {
    value.as_bool().map_or_else(|| wrong(format!("{value} is neither true nor false")), Ok)
}

fn archive_of(module: &Module, options: &ExportOptions<'_>) -> Outcome<Vec<u8>> {
    let mut archive = Vec::new();
    export_module_to(module, &mut archive, options)?;
    Ok(archive)
}

/// Returns a module on the host with the case's data as the buffers t0, t1 and so on.
fn module_of(case: &Value) -> Outcome<Module> {
    let mut module = Module::new("Net")?;
    for (index, data) in array(&case["data"])?.iter().enumerate() {
        let bytes = hex(data)?;
        let storage = StorageMut::new(bytes.len() as u64)?;
        storage.write(0, &bytes)?;
        let tensor = TensorMut::new(&storage, &TensorSpec::of::<u8>(&[bytes.len() as i64]))?;
        module.add_buffer(&format!("t{index}"), &tensor)?;
    }
    Ok(module)
}

fn storage_of(module: &Module, index: u64) -> Outcome<Storage> {
    Ok(module.value(&format!("t{index}"))?.to_tensor()?.storage())
}

pub(crate) fn run_cuda_counter(case: &Value) -> Outcome {
    known(&case["expect"], &["status", "details"])?;
    outcome(
        &case["expect"],
        release_cuda_counter(text(&case["counter"])?, unsigned(&case["slot"])?),
    )
    .map(|_| ())
}

pub(crate) fn run_cuda_open(case: &Value) -> Outcome {
    known(&case["expect"], &["status", "details"])?;
    let handle = CudaHandle {
        device: number(&case["device"])? as i32,
        nbytes: unsigned(&case["nbytes"])?,
        offset: unsigned(&case["offset"])?,
        counter: text(&case["counter"])?.to_owned(),
        slot: unsigned(&case["slot"])?,
        memory: hex(&case["memory"])?,
        ..CudaHandle::default()
    };
    let options = if case["read_only"].as_bool() == Some(true) {
        CudaOptions::new().read_only()
    } else {
        CudaOptions::new()
    };
    // SAFETY: the default stream.
    let opened = unsafe { handle.open(null_mut(), options) };
    let Some(storage) = outcome(&case["expect"], opened)? else { return Ok(()) };
    same("nbytes", storage.nbytes(), handle.nbytes)?;
    same("device", storage.device(), (2, handle.device))
}

fn transport_number(transport: CudaTransport) -> i64 {
    match transport {
        CudaTransport::NoMemory => 0,
        CudaTransport::Ipc => 1,
        CudaTransport::Fd => 2,
        CudaTransport::Fabric => 3,
        CudaTransport::Pool => 4,
        CudaTransport::Other(raw) => raw.into(),
        _ => -1,
    }
}

fn transport_of(number: i64) -> CudaTransport {
    match number {
        0 => CudaTransport::NoMemory,
        1 => CudaTransport::Ipc,
        2 => CudaTransport::Fd,
        3 => CudaTransport::Fabric,
        4 => CudaTransport::Pool,
        other => CudaTransport::Other(other as u32),
    }
}

fn compare(expect: &Value, handle: &CudaHandle) -> Outcome {
    let (memory, counter) = (expect["memory"].as_str().unwrap_or(""), text(&expect["counter"])?);
    same("transport", transport_number(handle.transport), number(&expect["transport"])?)?;
    same("device", handle.device.into(), number(&expect["device"])?)?;
    same("nbytes", handle.nbytes, unsigned(&expect["nbytes"])?)?;
    same("offset", handle.offset, unsigned(&expect["offset"])?)?;
    same("memory_nbytes", handle.memory.len() as u64, unsigned(&expect["memory_nbytes"])?)?;
    same("memory", hex_of(&handle.memory).get(..memory.len()), Some(memory))?;
    same("counter_nbytes", handle.counter.len() as u64, unsigned(&expect["counter_nbytes"])?)?;
    same("counter", handle.counter.get(..counter.len()), Some(counter))?;
    same("fds", handle.fds.len() as u64, unsigned(&expect["fds"])?)?;
    same("event_required", handle.event_required, flag(&expect["event_required"])?)?;
    same("uuid is known", handle.uuid.is_some(), true)
}

pub(crate) fn run_cuda_share(case: &Value) -> Outcome {
    let expect = &case["expect"];
    known(
        expect,
        &[
            "status",
            "details",
            "transport",
            "device",
            "nbytes",
            "offset",
            "memory",
            "memory_nbytes",
            "counter",
            "counter_nbytes",
            "fds",
            "event_required",
        ],
    )?;
    let mut module = module_of(case)?;
    if text(&case["on"])? == "cuda" {
        module = import_bytes(
            archive_of(&module, &ExportOptions::new())?,
            &ImportOptions::new().on_device(0),
        )?;
    }
    let storage = storage_of(&module, unsigned(&case["share"])?)?;
    let transport = transport_of(number(&case["transport"])?);
    let forms = [CudaForm::A, CudaForm::B, CudaForm::C, CudaForm::D, CudaForm::E];
    let options =
        CudaOptions::new().transport(transport).form(forms[unsigned(&case["form"])? as usize]);
    let record = flag(&case["record"])?;
    // SAFETY: the default stream, twice.
    let shared = unsafe {
        let recorded = if record { storage.record_stream(null_mut()) } else { Ok(()) };
        recorded.and_then(|()| storage.share_cuda(null_mut(), options))
    };
    let Some(handle) = outcome(expect, shared)? else { return Ok(()) };
    compare(expect, &handle)?;
    // SAFETY: the default stream.
    let again = unsafe { handle.open(null_mut(), CudaOptions::new()) }?;
    if handle.nbytes == 0 {
        same("nbytes", again.nbytes(), 0)?;
        return same("device", again.device(), (2, handle.device));
    }
    same("storage", again.id(), storage.id())
}

pub(crate) fn run_cuda_event(case: &Value) -> Outcome {
    let expect = &case["expect"];
    known(expect, &["status", "details", "complete"])?;
    let ask = text(&case["ask"])?;
    let mut options = CudaEventOptions::new().device(number(&case["device"])? as i32);
    if flag(&case["interprocess"])? {
        options = options.interprocess();
    }
    // SAFETY: the default stream. Where the event is opened, it is this function's too.
    let act = || unsafe {
        let event = CudaEvent::new(options)?;
        event.record(null_mut())?;
        event.wait(null_mut())?;
        event.synchronize(Duration::from_secs(10))?;
        if ask != "query" {
            let handle = event.ipc_handle()?;
            if ask == "open" {
                drop(CudaEvent::from_ipc_handle(&handle, 0)?);
            }
        }
        event.query()
    };
    match outcome(expect, act())? {
        Some(complete) => same("complete", complete, flag(&expect["complete"])?),
        None => Ok(()),
    }
}

pub(crate) fn run_cuda_module(case: &Value) -> Outcome {
    let expect = &case["expect"];
    known(expect, &["status", "details", "names_device", "data"])?;
    let (device, kept) = (number(&case["device"])? as i32, flag(&case["keep_device"])?);
    let first = archive_of(&module_of(case)?, &ExportOptions::new())?;
    let imported = import_bytes(first.clone(), &ImportOptions::new().on_device(device));
    let Some(there) = outcome(expect, imported)? else { return Ok(()) };
    let options = if kept { ExportOptions::new().keep_device() } else { ExportOptions::new() };
    let again = archive_of(&there, &options)?;
    same(
        "names_device",
        again.windows(6).any(|word| word == b"cuda:0"),
        flag(&expect["names_device"])?,
    )?;
    if !kept && first != again {
        return wrong("another archive");
    }
    let back = import_bytes(again, &ImportOptions::new())?;
    for (index, data) in array(&expect["data"])?.iter().enumerate() {
        let (on_device, on_host) =
            (storage_of(&there, index as u64)?, storage_of(&back, index as u64)?);
        same("device", on_device.device(), (2, device))?;
        same("device", on_host.device(), (1, 0))?;
        same("data", first_bytes(&on_host, 0, on_host.nbytes() as usize)?.as_str(), text(data)?)?;
    }
    Ok(())
}

pub(crate) fn run_cuda_arena(case: &Value) -> Outcome {
    let expect = &case["expect"];
    known(expect, &["status", "details", "stats"])?;
    let options = CudaArenaOptions::new()
        .device(case["device"].as_i64().unwrap_or(0) as i32)
        .transport(transport_of(case["transport"].as_i64().unwrap_or(0)))
        .capacity(unsigned(&case["capacity_nbytes"])?);
    let arena = match options.create() {
        Ok(arena) => arena,
        Err(error) => return outcome::<()>(expect, Err(error)).map(|_| ()),
    };
    let timeout = Duration::from_millis(case["timeout_ms"].as_u64().unwrap_or(0));
    let mut kept = Vec::new();
    let made = (|| {
        for nbytes in array(&case["storages"]).into_iter().flatten().filter_map(Value::as_u64) {
            kept.push(arena.allocate(nbytes, timeout)?);
        }
        Ok(())
    })();
    outcome(expect, made)?;
    let now = arena.stats()?;
    for (key, value) in expect["stats"].as_object().into_iter().flatten() {
        let got = match key.as_str() {
            "device" => now.device.into(),
            "transport" => transport_number(now.transport),
            "bytes_capacity" => now.bytes_capacity as i64,
            "bytes_used" => now.bytes_used as i64,
            "bytes_free" => now.bytes_free as i64,
            "bytes_largest_free" => now.bytes_largest_free as i64,
            "bytes_peak" => now.bytes_peak as i64,
            "blocks_used" => now.blocks_used as i64,
            _ => return wrong(format!("unknown figure {key}")),
        };
        same(key, got, number(value)?)?;
    }
    Ok(())
}
