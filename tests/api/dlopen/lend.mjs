// Lends tensors from Node without a wrapper. The program calls libtenon.so by the FFI package
// koffi, and declares the structs and functions of the C header by hand. No element of a tensor
// costs a call. node.sh runs this file. TENON_NODE_MODULES names the folder in which koffi is
// installed.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readlinkSync, rmSync, rmdirSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const koffi = createRequire(join(process.env.TENON_NODE_MODULES, "x"))("koffi");
const here = dirname(fileURLToPath(import.meta.url));
const lib = koffi.load(join(process.env.TENON_BUILD_DIR, "libtenon.so"));
const libc = koffi.load("libc.so.6");

const OK = 0, INVALID_ARGUMENT = 1, NOT_FOUND = 3, CORRUPT = 4, PEER_GONE = 8, WOULD_BLOCK = 9;
const DTYPE_FLOAT = 2;
const DEVICE_CPU = 1;
const AF_UNIX = 1, SOCK_SEQPACKET = 5, SOCK_CLOEXEC = 0o2000000;
const PATIENCE_NS = 60n * 1_000_000_000n;

// ---- the C header's structs and functions

const Dtype = koffi.struct({ code: "uint8_t", bits: "uint8_t", lanes: "uint16_t" });
const Device = koffi.struct({ type: "int32_t", id: "int32_t" });
const StorageOptions = koffi.struct({
  struct_size: "size_t", mode: "uint32_t", flags: "uint32_t", alignment: "uint64_t",
});
const TensorSpec = koffi.struct({
  struct_size: "size_t", dtype: Dtype, ndim: "int32_t", sizes: "int64_t *", strides: "int64_t *",
  offset: "uint64_t", flags: "uint32_t", reserved: "uint32_t",
});
const TensorView = koffi.struct({
  struct_size: "size_t", tensor: "void *", name: "const char *", data: "void *", data_mut: "void *",
  sizes: "void *", strides: "void *", offset: "uint64_t", numel: "uint64_t", nbytes: "uint64_t",
  dtype: Dtype, ndim: "int32_t", flags: "uint32_t", is_contiguous: "int32_t", device: Device,
});
const Wait = koffi.struct({
  struct_size: "size_t", timeout_ns: "int64_t", cancel: "void *", flags: "uint32_t",
  reserved: "uint32_t",
});
const FilenameOptions = koffi.struct({
  struct_size: "size_t", access: "uint32_t", flags: "uint32_t", mode: "uint32_t", group: "uint32_t",
  directory: "const char *", prefix: "const char *", name: "const char *",
  manager: "const char *",
});
const FilenameHandle = koffi.struct({
  struct_size: "size_t", access: "uint32_t", reserved: "uint32_t", offset: "uint64_t",
  nbytes: "uint64_t", manager: koffi.array("char", 108), name: koffi.array("char", 256),
});
const Stats = koffi.struct({
  struct_size: "size_t", bytes_copied: "uint64_t", storages: "uint64_t", segments: "uint64_t",
  segment_fds: "uint64_t", bytes_reserved: "uint64_t", bytes_live: "uint64_t",
  bytes_retired: "uint64_t", bytes_opened: "uint64_t",
});

const outPointer = koffi.out(koffi.pointer("void *"));
// `filled` is a struct that the library reads and writes. It only reads a `borrowed` one.
const filled = (type) => koffi.inout(koffi.pointer(type));
const borrowed = (type) => koffi.pointer(type);

const declare = (name, result, ...parameters) => lib.func(`tenon_${name}`, result, parameters);
// A function that can fail returns a status. Its last parameter takes the error.
const fallible = (name, ...parameters) => declare(name, "int32_t", ...parameters, outPointer);

const abi_version = declare("abi_version", "uint32_t");
const status_name = declare("status_name", "const char *", "int32_t");
const error_code = declare("error_code", "int32_t", "void *");
const error_message = declare("error_message", "const char *", "void *");
const error_detail = declare("error_detail", "const char *", "void *", "const char *");
const error_detail_key = declare("error_detail_key", "const char *", "void *", "size_t");
const error_release = declare("error_release", "void", "void *");
const storage_new = fallible("storage_new", borrowed(StorageOptions), "uint64_t", outPointer);
const storage_new_filename =
  fallible("storage_new_filename", borrowed(FilenameOptions), "uint64_t", outPointer);
const storage_data_mut = fallible("storage_data_mut", "void *", outPointer);
const storage_release = declare("storage_release", "void", "void *");
const storage_trim = declare("storage_trim", "uint64_t");
const share_filename = fallible(
  "share_filename", "void *", borrowed(FilenameOptions), borrowed(Wait), filled(FilenameHandle),
);
const open_filename =
  fallible("open_filename", borrowed(FilenameHandle), "void *", borrowed(Wait), outPointer);
const tensor_new = fallible("tensor_new", "void *", borrowed(TensorSpec), outPointer);
const tensor_release = declare("tensor_release", "void", "void *");
const message_new = fallible("message_new", outPointer);
const message_add =
  fallible("message_add", "void *", "void **", "const char **", "size_t", "void *");
const message_set_user_bytes =
  fallible("message_set_user_bytes", "void *", "const void *", "size_t");
const message_get_views = fallible("message_get_views", "void *", "void *", "size_t");
const message_count = declare("message_count", "size_t", "void *");
const message_user_bytes =
  declare("message_user_bytes", "void *", "void *", koffi.out(koffi.pointer("size_t")));
const message_release = declare("message_release", "void", "void *");
const connection_new = fallible("connection_new", "int", "void *", outPointer);
const connection_release = declare("connection_release", "void", "void *");
const send = fallible("send", "void *", "void *", borrowed(Wait));
const recv = fallible("recv", "void *", borrowed(Wait), outPointer);
const descriptor_open = fallible(
  "descriptor_open", "const void *", "size_t", "void *", "size_t", "void *", outPointer,
);
const stats_get = fallible("stats_get", filled(Stats));

const sized = (type, fields = {}) =>
  ({ ...zeros(type), ...fields, struct_size: koffi.sizeof(type) });
function zeros(type) {
  const members = koffi.type(type).members;
  const zeroed = Object.entries(members).map(([name, member]) => [name, zero(member.type)]);
  return Object.fromEntries(zeroed);
}
function zero(type) {
  const kind = koffi.type(type);
  if (kind.members) return zeros(type);
  if (kind.primitive === "Array") return "";
  return /Pointer|String/.test(kind.primitive) ? null : 0;
}

class TenonError extends Error {
  constructor(status, error) {
    super(error_message(error));
    this.status = status;
    this.code = error_code(error);
    this.details = {};
    for (let index = 0, key; (key = error_detail_key(error, index)) !== null; index++)
      this.details[key] = error_detail(error, key);
    error_release(error);
  }
}

function call(fn, ...args) {
  const error = [null];
  const status = fn(...args, error);
  if (status !== OK) throw new TenonError(status, error[0]);
}

// Calls the function on a thread of koffi's, so that a wait does not stop the event loop.
async function callAsync(fn, ...args) {
  const error = [null];
  const status = await promisify(fn.async)(...args, error);
  if (status !== OK) throw new TenonError(status, error[0]);
}

function make(fn, ...args) {
  const out = [null];
  call(fn, ...args, out);
  return out[0];
}

function failsWith(status, fn, ...args) {
  try {
    call(fn, ...args);
  } catch (error) {
    assert(error instanceof TenonError, String(error));
    assert.equal(error.status, status, `${status_name(error.status)}: ${error.message}`);
    assert.equal(error.code, status);
    assert(error.message.length > 0 && !error.message.includes("\n"));
    return error;
  }
  return assert.fail("the call succeeded");
}

// Gives a typed array over the library's own memory. No byte is copied.
const floats = (address, count) => new Float32Array(koffi.view(address, 4 * count));
const aWhile = () => sized(Wait, { timeout_ns: PATIENCE_NS });

// ---- the tests

function errors() {
  const out = [null];
  failsWith(INVALID_ARGUMENT, storage_new, sized(StorageOptions, { alignment: 3 }), 64, out);
  assert.equal(out[0], null);
  const garbage = Buffer.from("no descriptor".repeat(20));
  const corrupt = failsWith(CORRUPT, descriptor_open, garbage, 260, null, 0, null, out);
  assert.equal(corrupt.details.field, "magic");
  const nothing = sized(FilenameHandle, { name: "/tenon-no-such-name", nbytes: 8 });
  const missing = failsWith(NOT_FOUND, open_filename, nothing, null, null, out);
  assert.equal(missing.details.path, "/dev/shm/tenon-no-such-name");
}

async function python(script, args, stdio) {
  const child = spawn(process.env.TENON_PYTHON, ["-B", join(here, script), ...args], {
    stdio: ["ignore", "pipe", "inherit", ...stdio],
  });
  let said = "";
  child.stdout.on("data", (data) => (said += data));
  const [code] = await once(child, "close");
  assert.equal(code, 0, `${script} ${args[0]} exits with ${code}: ${said}`);
  return said.trim();
}

async function byName() {
  const directory = mkdtempSync("/dev/shm/tenon-node-");
  // The directory must also go when an assertion fails.
  process.on("exit", () => rmSync(directory, { recursive: true, force: true }));
  const options = sized(FilenameOptions, { directory, name: "numbers" });
  const storage = make(storage_new_filename, options, 4000);
  const values = floats(make(storage_data_mut, storage), 1000);
  values[7] = 21;
  const handle = sized(FilenameHandle);
  call(share_filename, storage, null, null, handle);
  assert.equal(handle.name, `${directory}/numbers`);
  const said = await python("borrower.py", ["name", handle.name, String(handle.nbytes)], []);
  assert.equal(said, "21.0");
  assert.equal(values[7], 42, "the write of the other process is seen in the typed array");
  storage_release(storage);
  rmdirSync(directory);
}

async function byFd() {
  // Node has no socketpair of its own.
  const close = libc.func("close", "int", ["int"]);
  const ends = new Int32Array(2);
  const socketpair = libc.func("socketpair", "int", ["int", "int", "int", "int *"]);
  assert.equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);

  const count = 50;
  const storage = make(storage_new, null, count * 24);
  const tensors = [];
  const sizes = koffi.alloc("int64_t", 2);
  koffi.encode(sizes, koffi.array("int64_t", 2), [2, 3]);
  for (let index = 0; index < count; index++) {
    const dtype = { code: DTYPE_FLOAT, bits: 32, lanes: 1 };
    const spec = sized(TensorSpec, { dtype, ndim: 2, sizes, offset: 6 * index });
    tensors.push(make(tensor_new, storage, spec));
  }
  floats(make(storage_data_mut, storage), count * 6)
    .forEach((_, index, all) => (all[index] = index));
  const message = make(message_new);
  call(message_add, message, tensors, tensors.map((_, index) => `tensor ${index}`), count, null);
  call(message_set_user_bytes, message, Buffer.from("from node"), 9);

  const connection = make(connection_new, ends[0], null);
  failsWith(WOULD_BLOCK, recv, connection, sized(Wait), [null]);
  const borrower = python("borrower.py", ["fd", "3"], [ends[1]]);
  close(ends[1]);
  await callAsync(send, connection, message, aWhile());
  const out = [null];
  await callAsync(recv, connection, aWhile(), out);
  const answer = out[0];
  assert.equal(await borrower, "from node");
  assert.equal(message_count(answer), 2);
  const views = koffi.alloc(TensorView, 2);
  koffi.encode(views, "size_t", koffi.sizeof(TensorView));
  call(message_get_views, answer, views, 2);
  const [doubled, sum] = koffi.decode(views, koffi.array(TensorView, 2));
  assert.deepEqual([doubled.name, sum.name], ["doubled", "sum"]);
  assert.deepEqual(
    [doubled.ndim, doubled.numel, doubled.nbytes, doubled.is_contiguous], [2, 300, 1200, 1],
  );
  assert.deepEqual([doubled.device.type, doubled.device.id], [DEVICE_CPU, 0]);
  assert.deepEqual(koffi.decode(doubled.sizes, koffi.array("int64_t", 2, "Array")), [50, 6]);
  assert.deepEqual([sum.dtype.code, sum.dtype.bits, sum.dtype.lanes], [DTYPE_FLOAT, 64, 1]);
  assert.equal(sum.data_mut, null, "it was lent read-only");
  assert.equal(floats(doubled.data_mut, 300)[299], 598);
  assert.equal(new Float64Array(koffi.view(sum.data, 8))[0], (299 * 300) / 2);
  const written = floats(make(storage_data_mut, storage), count * 6)[5];
  assert.equal(written, -1, "the write of the other process is seen");
  const nbytes = [0];
  const bytes = message_user_bytes(answer, nbytes);
  assert.equal(Buffer.from(koffi.view(bytes, Number(nbytes[0]))).toString(), "from python");
  failsWith(PEER_GONE, recv, connection, aWhile(), [null]);

  koffi.free(views);
  koffi.free(sizes);
  message_release(answer);
  message_release(message);
  tensors.forEach((tensor) => tensor_release(tensor));
  storage_release(storage);
  connection_release(connection);
  close(ends[0]);
}

assert.equal(abi_version(), 1);
errors();
await byName();
await byFd();
storage_trim();
const stats = sized(Stats);
call(stats_get, stats);
assert.deepEqual(
  [stats.storages, stats.segments, stats.segment_fds, stats.bytes_copied], [0, 0, 0, 0],
);
const fds = readdirSync("/proc/self/fd").map((fd) => {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    return ""; // the fd of the listing itself is closed by now
  }
});
assert(!fds.some((target) => target.includes("memfd:tenon")), "no fd is left");
console.log("lent by name and by fd from Node, written in place by Python");
