//! Modules: an object tree with typed members, and the code of its classes.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use crate::error::{check, make, Error, ErrorKind, Result};
use crate::member::{files, members, names, Member, MemberKind};
use crate::panic;
use crate::sys;
use crate::text::{c_text, sized, Names};
use crate::tree;
use crate::value::{Items, Value};

/// What PyTorch calls a ScriptModule. Built here or read by
/// [`import_module`](crate::import_module), changed, and written by
/// [`export_module`](crate::export_module). Nothing in it is ever run here.
///
/// A path names a member from a module on: `"encoder.0.weight"`. A submodule that was looked up is
/// a `Module` over the same objects, and so is a clone: what is changed through one shows in all,
/// and they are equal. Every value is checked against its declared type when it is put in. After a
/// failed change everything is as it was.
///
/// ```
/// use tenon::{Module, TensorMut};
///
/// let mut layer = Module::new("Scale")?;
/// layer.add_parameter("weight", &TensorMut::copy_of(&[2.0f32, 3.0], &[2])?)?;
/// layer.define("def forward(self, x: Tensor) -> Tensor:\n  return torch.mul(x, self.weight)\n")?;
/// layer.check()?;
/// assert_eq!(layer.find("weight")?.type_text, "Tensor");
/// # Ok::<(), tenon::Error>(())
/// ```
pub struct Module {
    raw: NonNull<sys::tenon_module>,
    // A change is for one thread, by a `&mut`; there is no reason to share the handle.
    not_sync: PhantomData<std::cell::Cell<()>>,
}

// SAFETY: any thread (module.h); that nobody looks while another handle over the same tree changes
// it is the lock's work (tree.rs).
unsafe impl Send for Module {}

/// What [`Module::load`] allows. Without anything: exactly the parameters and buffers that the
/// module has.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct LoadOptions {
    flags: u32,
}

impl LoadOptions {
    /// Nothing more is allowed.
    pub fn new() -> LoadOptions {
        LoadOptions::default()
    }

    /// Paths that are not given keep what they have.
    pub fn allow_missing(self) -> Self {
        LoadOptions { flags: self.flags | sys::TENON_LOAD_ALLOW_MISSING }
    }

    /// Given paths that the module has not are left out.
    pub fn allow_unexpected(self) -> Self {
        LoadOptions { flags: self.flags | sys::TENON_LOAD_ALLOW_UNEXPECTED }
    }

    /// Change nothing, say what would be missing and unexpected.
    pub fn check_only(self) -> Self {
        LoadOptions { flags: self.flags | sys::TENON_LOAD_CHECK_ONLY }
    }
}

/// What a [`Module::load`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadReport {
    /// Paths of the module that were not among the given ones.
    pub missing: Vec<String>,
    /// Given paths that the module has not.
    pub unexpected: Vec<String>,
}

impl Module {
    /// A module without members, of a new class: `"MLP"`, or a qualified name as
    /// `"__torch__.my.MLP"`.
    pub fn new(class_name: &str) -> Result<Module> {
        let class_name = c_text(class_name, "the class")?;
        // SAFETY: borrowed for the call; out is ours.
        Ok(Module::adopt(make(|out, err| unsafe {
            sys::tenon_module_new(class_name.as_ptr(), out, err)
        })?))
    }

    /// Add a parameter: a tensor, or `Value::none()` for one that is None, as `bias=None`.
    pub fn add_parameter<V: TryInto<Value>>(&mut self, name: &str, tensor: V) -> Result<()>
    where
        Error: From<V::Error>,
    {
        let (name, tensor) = (c_text(name, "the name")?, tensor.try_into()?);
        // SAFETY: all is borrowed for the call; the module takes a reference of its own.
        self.change(|raw, err| unsafe {
            sys::tenon_module_add_parameter(raw, name.as_ptr(), tensor.as_raw(), err)
        })
    }

    /// Add a buffer, as a parameter.
    pub fn add_buffer<V: TryInto<Value>>(&mut self, name: &str, tensor: V) -> Result<()>
    where
        Error: From<V::Error>,
    {
        let (name, tensor) = (c_text(name, "the name")?, tensor.try_into()?);
        // SAFETY: as above.
        self.change(|raw, err| unsafe {
            sys::tenon_module_add_buffer(raw, name.as_ptr(), tensor.as_raw(), err)
        })
    }

    /// Add an attribute of a declared type: `"Dict[str, int]"`, classes by their qualified names,
    /// defined before. `None`: the type that the value shows.
    pub fn add_attribute<V: TryInto<Value>>(
        &mut self,
        name: &str,
        type_text: Option<&str>,
        value: V,
    ) -> Result<()>
    where
        Error: From<V::Error>,
    {
        let (name, value) = (c_text(name, "the name")?, value.try_into()?);
        let type_text = type_text.map(|text| c_text(text, "the type")).transpose()?;
        let raw_type = type_text.as_ref().map_or(ptr::null(), |text| text.as_ptr());
        // SAFETY: as above.
        self.change(|raw, err| unsafe {
            sys::tenon_module_add_attribute(raw, name.as_ptr(), raw_type, value.as_raw(), err)
        })
    }

    /// Add a constant, which PyTorch calls Final: it stands in the class and cannot change when the
    /// module runs.
    pub fn add_constant<V: TryInto<Value>>(
        &mut self,
        name: &str,
        type_text: Option<&str>,
        value: V,
    ) -> Result<()>
    where
        Error: From<V::Error>,
    {
        let (name, value) = (c_text(name, "the name")?, value.try_into()?);
        let type_text = type_text.map(|text| c_text(text, "the type")).transpose()?;
        let raw_type = type_text.as_ref().map_or(ptr::null(), |text| text.as_ptr());
        // SAFETY: as above.
        self.change(|raw, err| unsafe {
            sys::tenon_module_add_constant(raw, name.as_ptr(), raw_type, value.as_raw(), err)
        })
    }

    /// Add a module below this one. One that is added in several places is shared by them, here and
    /// in archives.
    pub fn add_submodule(&mut self, name: &str, child: &Module) -> Result<()> {
        let name = c_text(name, "the name")?;
        // SAFETY: as above.
        self.change(|raw, err| unsafe {
            sys::tenon_module_add_submodule(raw, name.as_ptr(), child.as_raw(), ptr::null(), err)
        })
    }

    /// The same, declared by the qualified name of an interface that the child has, in place of its
    /// own class.
    pub fn add_submodule_as(&mut self, name: &str, child: &Module, interface: &str) -> Result<()> {
        let (name, interface) = (c_text(name, "the name")?, c_text(interface, "the interface")?);
        // SAFETY: as above.
        self.change(|raw, err| unsafe {
            sys::tenon_module_add_submodule(
                raw,
                name.as_ptr(),
                child.as_raw(),
                interface.as_ptr(),
                err,
            )
        })
    }

    /// Define methods: one `def` or more in TorchScript. One that is there already is replaced. The
    /// error's details are `file`, `line`, `column` and `excerpt`.
    pub fn define(&mut self, source: &str) -> Result<()> {
        let source = c_text(source, "the source")?;
        // SAFETY: as above.
        self.change(|raw, err| unsafe { sys::tenon_module_define(raw, source.as_ptr(), err) })
    }

    /// Define what methods and types use: functions, NamedTuples, enums, interfaces, plain classes.
    /// Of `class P` comes `<qualifier>.P`, where the qualifier is `"__torch__"` or a name below it.
    pub fn define_types(&mut self, qualifier: &str, source: &str) -> Result<()> {
        let (qualifier, source) =
            (c_text(qualifier, "the qualifier")?, c_text(source, "the source")?);
        // SAFETY: as above.
        self.change(|raw, err| unsafe {
            sys::tenon_module_define_types(raw, qualifier.as_ptr(), source.as_ptr(), err)
        })
    }

    /// Say which methods PyTorch runs before forward, in this order.
    pub fn set_hooks_before_forward(&mut self, methods: &[&str]) -> Result<()> {
        self.set_hooks(1, methods)
    }

    /// Say which methods PyTorch runs after forward, in this order.
    pub fn set_hooks_after_forward(&mut self, methods: &[&str]) -> Result<()> {
        self.set_hooks(0, methods)
    }

    fn set_hooks(&mut self, before_forward: i32, methods: &[&str]) -> Result<()> {
        let names = Names::new(methods.iter().copied(), "the method")?;
        // SAFETY: as above.
        self.change(|raw, err| unsafe {
            sys::tenon_module_set_hooks(
                raw,
                before_forward,
                names.raw.as_ptr(),
                names.raw.len(),
                err,
            )
        })
    }

    /// Keep the example inputs of a traced method in archives. Their tensors are written without
    /// bytes.
    pub fn set_traced_inputs<V: Into<Value>>(
        &mut self,
        method: &str,
        inputs: impl IntoIterator<Item = V>,
    ) -> Result<()> {
        let (method, inputs) = (c_text(method, "the method")?, Items::new(inputs));
        // SAFETY: as above.
        self.change(|raw, err| unsafe {
            sys::tenon_module_set_traced_inputs(
                raw,
                method.as_ptr(),
                inputs.as_ptr(),
                inputs.len(),
                err,
            )
        })
    }

    /// Put a file beside the module, which goes into every archive of it. One of that name is
    /// replaced.
    pub fn set_extra_file(&mut self, name: &str, data: impl AsRef<[u8]>) -> Result<()> {
        let (name, data) = (c_text(name, "the name")?, data.as_ref());
        // SAFETY: as above; data is copied.
        self.change(|raw, err| unsafe {
            sys::tenon_module_set_extra_file(
                raw,
                name.as_ptr(),
                data.as_ptr().cast(),
                data.len(),
                err,
            )
        })
    }

    /// Take such a file away.
    pub fn remove_extra_file(&mut self, name: &str) -> Result<()> {
        let name = c_text(name, "the name")?;
        // SAFETY: as above.
        self.change(|raw, err| unsafe {
            sys::tenon_module_remove_extra_file(raw, name.as_ptr(), err)
        })
    }

    /// Replace a parameter, buffer or attribute. The shape and the element type of a tensor may
    /// change. Whatever else below this module held the same tensor has the new one too. A
    /// parameter that requires a gradient goes on to require one.
    pub fn set<V: TryInto<Value>>(&mut self, path: &str, value: V) -> Result<()>
    where
        Error: From<V::Error>,
    {
        let (path, value) = (c_text(path, "the path")?, value.try_into()?);
        // SAFETY: as above.
        self.change(|raw, err| unsafe {
            sys::tenon_module_set(raw, path.as_ptr(), value.as_raw(), err)
        })
    }

    /// Give the object at a path a state, in place of the one that it has or of a module's
    /// attributes. `""` is the module itself. `set("conv.state[0]", …)` replaces a part of a state.
    pub fn set_state<V: TryInto<Value>>(&mut self, path: &str, state: V) -> Result<()>
    where
        Error: From<V::Error>,
    {
        let (path, state) = (c_text(path, "the path")?, state.try_into()?);
        // SAFETY: as above.
        self.change(|raw, err| unsafe {
            sys::tenon_module_set_state(raw, path.as_ptr(), state.as_raw(), err)
        })
    }

    /// Replace a submodule. Another class is fine unless an interface is declared that it has not.
    pub fn set_submodule(&mut self, path: &str, child: &Module) -> Result<()> {
        let path = c_text(path, "the path")?;
        // SAFETY: as above.
        self.change(|raw, err| unsafe {
            sys::tenon_module_set_submodule(raw, path.as_ptr(), child.as_raw(), err)
        })
    }

    /// Take a member away: a parameter, buffer, attribute, constant, submodule or method.
    pub fn remove(&mut self, path: &str) -> Result<()> {
        let path = c_text(path, "the path")?;
        // SAFETY: as above.
        self.change(|raw, err| unsafe { sys::tenon_module_remove(raw, path.as_ptr(), err) })
    }

    /// Replace parameters and buffers by their paths, all of them or, on failure, none. The error
    /// names what is missing and unexpected.
    pub fn load<'a, V: TryInto<Value>>(
        &mut self,
        tensors: impl IntoIterator<Item = (&'a str, V)>,
        options: LoadOptions,
    ) -> Result<LoadReport>
    where
        Error: From<V::Error>,
    {
        let (mut paths, mut values) = (Vec::new(), Vec::new());
        for (path, tensor) in tensors {
            paths.push(path);
            values.push(tensor.try_into()?);
        }
        let (paths, values) = (Names::new(paths, "the path")?, Items::new(values));
        let (mut missing, mut unexpected) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: as above; there are as many paths as values, and the lists are ours.
        self.change(|raw, err| unsafe {
            let n = values.len();
            sys::tenon_module_load(
                raw,
                paths.raw.as_ptr(),
                values.as_ptr(),
                n,
                options.flags,
                &mut missing,
                &mut unexpected,
                err,
            )
        })?;
        let list = |raw| NonNull::new(raw).map(names).unwrap_or_default();
        Ok(LoadReport { missing: list(missing), unexpected: list(unexpected) })
    }

    /// Check the code as an export does: names, operators, and the numbers, keywords and types of
    /// arguments. A call that the newest PyTorch takes and PyTorch 1.13 refuses is no error, see
    /// [`Module::warnings`].
    pub fn check(&self) -> Result<()> {
        // SAFETY: self keeps it; the lock keeps changes away.
        tree::look(|| check(|err| unsafe { sys::tenon_module_check(self.as_raw(), err) }))
    }

    /// All members, in the order in which the class declares them, methods last.
    pub fn members(&self) -> Result<Vec<Member>> {
        tree::look(|| {
            // SAFETY: as above; out is ours.
            members(make(|out, err| unsafe { sys::tenon_module_members(self.as_raw(), out, err) })?)
        })
    }

    /// The member of a path; [`ErrorKind::NotFound`] names the part that is not there.
    pub fn find(&self, path: &str) -> Result<Member> {
        let path = c_text(path, "the path")?;
        let found = tree::look(|| {
            // SAFETY: as above.
            members(make(|out, err| unsafe {
                sys::tenon_module_find(self.as_raw(), path.as_ptr(), out, err)
            })?)
        })?;
        found
            .into_iter()
            .next()
            .ok_or_else(|| Error::new(ErrorKind::Internal, "the member found is not in the list"))
    }

    /// The submodule of a path.
    pub fn submodule(&self, path: &str) -> Result<Module> {
        self.find(path)?.module.ok_or_else(|| {
            Error::new(ErrorKind::InvalidArgument, format!("{path} is no submodule"))
        })
    }

    /// The value of a path: of a parameter, buffer, attribute, or a constant that is a literal.
    pub fn value(&self, path: &str) -> Result<Value> {
        self.find(path)?
            .value
            .ok_or_else(|| Error::new(ErrorKind::InvalidArgument, format!("{path} has no value")))
    }

    /// The paths of all states below, such as `"conv.state"`. A class that has both `__getstate__`
    /// and `__setstate__` has a state in an archive and no attributes; [`value`](Module::value)
    /// gives a state, or a part of it: `"conv.state[0]"`.
    pub fn states(&self) -> Result<Vec<String>> {
        tree::look(|| {
            // SAFETY: as above.
            Ok(names(make(|out, err| unsafe {
                sys::tenon_module_states(self.as_raw(), out, err)
            })?))
        })
    }

    /// Every parameter, buffer and tensor of a state below, named by its path, in the order of the
    /// tree; a shared one under each of its paths. Those that are None are left out.
    pub fn tensors(&self) -> Result<Vec<Member>> {
        tree::look(|| {
            // SAFETY: as above.
            members(make(|out, err| unsafe { sys::tenon_module_tensors(self.as_raw(), out, err) })?)
        })
    }

    /// The parameters among [`tensors`](Module::tensors).
    pub fn parameters(&self) -> Result<Vec<Member>> {
        Ok(self
            .tensors()?
            .into_iter()
            .filter(|member| member.kind == MemberKind::Parameter)
            .collect())
    }

    /// The buffers among [`tensors`](Module::tensors).
    pub fn buffers(&self) -> Result<Vec<Member>> {
        Ok(self.tensors()?.into_iter().filter(|member| member.kind == MemberKind::Buffer).collect())
    }

    /// The files beside the module.
    pub fn extra_files(&self) -> Result<Vec<(String, Vec<u8>)>> {
        tree::look(|| {
            // SAFETY: as above.
            files(make(|out, err| unsafe {
                sys::tenon_module_extra_files(self.as_raw(), out, err)
            })?)
        })
    }

    /// The code of its classes and functions, as an export writes it: one file for each qualifier,
    /// `"__torch__/my/layers.py"`.
    pub fn code_files(&self) -> Result<Vec<(String, String)>> {
        let found = tree::look(|| {
            // SAFETY: as above.
            files(make(|out, err| unsafe {
                sys::tenon_module_code_files(self.as_raw(), out, err)
            })?)
        })?;
        Ok(found
            .into_iter()
            .map(|(name, data)| (name, String::from_utf8_lossy(&data).into_owned()))
            .collect())
    }

    /// What `CONSTANTS.c0`, `CONSTANTS.c1`, … are in the code.
    pub fn constants(&self) -> Result<Vec<Value>> {
        tree::look(|| {
            // SAFETY: as above.
            Value::new(|out, err| unsafe { sys::tenon_module_constants(self.as_raw(), out, err) })
        })?
        .items()
    }

    /// What is remarkable about this module, one line each: calls that PyTorch 1.13 refuses and the
    /// newest PyTorch takes, or the other way round, and what an import found, such as operators
    /// that have another meaning in the archive's version than today.
    pub fn warnings(&self) -> Result<Vec<String>> {
        tree::look(|| {
            // SAFETY: as above.
            Ok(names(make(|out, err| unsafe {
                sys::tenon_module_warnings(self.as_raw(), out, err)
            })?))
        })
    }

    /// The qualified name of its class.
    pub fn class_name(&self) -> Result<String> {
        let raw = self.as_raw();
        tree::look(|| {
            // SAFETY: as above; the buffer is as large as said.
            sized(|out, capacity, nbytes, err| unsafe {
                sys::tenon_module_class_name(raw, out, capacity, nbytes, err)
            })
        })
    }

    /// The object that it is.
    pub fn object(&self) -> Value {
        // SAFETY: self keeps it; out is ours.
        let object =
            Value::new(|out, err| unsafe { sys::tenon_module_object(self.as_raw(), out, err) });
        // Documented to fail only for NULL.
        object.unwrap_or_else(|error| unreachable!("{error}"))
    }

    /// The C library's pointer; borrowed, it is released with self.
    pub fn as_raw(&self) -> *mut sys::tenon_module {
        self.raw.as_ptr()
    }

    fn change(
        &mut self,
        call: impl FnOnce(*mut sys::tenon_module, *mut *mut sys::tenon_error) -> sys::tenon_status,
    ) -> Result<()> {
        tree::change(|| check(|err| call(self.as_raw(), err)))
    }

    pub(crate) fn adopt(raw: NonNull<sys::tenon_module>) -> Module {
        Module { raw, not_sync: PhantomData }
    }

    /// A reference of its own to what somebody else keeps.
    ///
    /// # Safety
    /// `raw` is NULL or a living module.
    pub(crate) unsafe fn retained(raw: *mut sys::tenon_module) -> Option<Module> {
        // SAFETY: as above.
        NonNull::new(unsafe { sys::tenon_module_retain(raw) }).map(Module::adopt)
    }
}

/// One more handle over the same objects.
impl Clone for Module {
    fn clone(&self) -> Module {
        // SAFETY: self keeps it; any thread (module.h).
        unsafe { sys::tenon_module_retain(self.as_raw()) };
        Module::adopt(self.raw)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: the reference is ours, and gone after this.
        panic::release(|| unsafe { sys::tenon_module_release(self.as_raw()) });
    }
}

/// The same object, and not only one that looks alike.
impl PartialEq for Module {
    fn eq(&self, other: &Module) -> bool {
        self.object().is_same(&other.object())
    }
}

impl Eq for Module {}

impl Hash for Module {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.object().as_raw().hash(state);
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Module({})", self.object().class_name())
    }
}
