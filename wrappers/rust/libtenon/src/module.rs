//! Modules: trees of objects with typed members, and the code of their classes.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ptr::{self, NonNull};

use crate::error::{check, make, Error, ErrorKind, Result};
use crate::member::{files, members, names, Member, MemberKind};
use crate::panic;
use crate::sys;
use crate::text::{c_text, sized, Names};
use crate::value::{Items, Value};

/// A module is what PyTorch calls a ScriptModule. A program builds a module, or reads it with
/// [`import_module`](crate::import_module). It can change the module, and write it with
/// [`export_module`](crate::export_module). This crate never runs the module's code.
///
/// A path names a member, seen from a module: `"encoder.0.weight"`. A submodule that a call gave is
/// a `Module` over the same objects, and so is a clone. A change through one of them shows in all,
/// and they are equal. Every value is checked against its declared type when it is added. After a
/// failed change everything is as it was. Any thread may use handles of one tree at any time: a
/// change waits for other calls.
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
}

handle!(pub Module, tenon_module, tenon_module_release, retain tenon_module_retain);

/// Says which differences [`Module::load`] allows. Without options it takes exactly the parameters
/// and buffers that the module has.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct LoadOptions {
    flags: u32,
}

impl LoadOptions {
    /// No differences are allowed.
    pub fn new() -> LoadOptions {
        LoadOptions::default()
    }

    /// Parameters and buffers whose paths are not given keep what they have.
    pub fn allow_missing(self) -> Self {
        LoadOptions { flags: self.flags | sys::TENON_LOAD_ALLOW_MISSING }
    }

    /// Given paths that the module does not have are left out.
    pub fn allow_unexpected(self) -> Self {
        LoadOptions { flags: self.flags | sys::TENON_LOAD_ALLOW_UNEXPECTED }
    }

    /// Changes nothing, and only tells what would be missing and unexpected.
    pub fn check_only(self) -> Self {
        LoadOptions { flags: self.flags | sys::TENON_LOAD_CHECK_ONLY }
    }
}

/// Says what a [`Module::load`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadReport {
    /// Paths of the module that were not given.
    pub missing: Vec<String>,
    /// Given paths that the module does not have.
    pub unexpected: Vec<String>,
}

impl Module {
    /// Makes a module without members, of a new class: `"MLP"`, or a qualified name such as
    /// `"__torch__.my.MLP"`.
    pub fn new(class_name: &str) -> Result<Module> {
        let class_name = c_text(class_name, "the class")?;
        // SAFETY: the name is borrowed for the call, and out belongs to this function.
        Ok(Module::adopt(make(|out, err| unsafe {
            sys::tenon_module_new(class_name.as_ptr(), out, err)
        })?))
    }

    /// Adds a parameter: a tensor, or `Value::none()` for a parameter that is None, such as
    /// `bias=None`.
    pub fn add_parameter<V: TryInto<Value>>(&mut self, name: &str, tensor: V) -> Result<()>
    where
        Error: From<V::Error>,
    {
        let (name, tensor) = (c_text(name, "the name")?, tensor.try_into()?);
        // SAFETY: all arguments are borrowed for the call, and the module takes a reference of its
        // own.
        self.change(|raw, err| unsafe {
            sys::tenon_module_add_parameter(raw, name.as_ptr(), tensor.as_raw(), err)
        })
    }

    /// Adds a buffer, as [`add_parameter`](Self::add_parameter) adds a parameter.
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

    /// Adds an attribute of a declared type such as `"Dict[str, int]"`. A class in the type has its
    /// qualified name and must be defined before. `None` means the type that the value shows by
    /// itself.
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

    /// Adds a constant, which PyTorch calls Final: the class contains it, and it cannot change when
    /// the module runs.
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

    /// Adds a submodule. One module may be added in several places, which then share it, in memory
    /// and in archives.
    pub fn add_submodule(&mut self, name: &str, child: &Module) -> Result<()> {
        let name = c_text(name, "the name")?;
        // SAFETY: as above.
        self.change(|raw, err| unsafe {
            sys::tenon_module_add_submodule(raw, name.as_ptr(), child.as_raw(), ptr::null(), err)
        })
    }

    /// Adds a submodule as [`add_submodule`](Self::add_submodule) does, but declares it by the
    /// qualified name of an interface that the child has, and not by the child's own class.
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

    /// Defines methods: one or more `def` in TorchScript. A method that exists already is replaced.
    /// The error for wrong code has the details `file`, `line`, `column` and `excerpt`.
    pub fn define(&mut self, source: &str) -> Result<()> {
        let source = c_text(source, "the source")?;
        // SAFETY: as above.
        self.change(|raw, err| unsafe { sys::tenon_module_define(raw, source.as_ptr(), err) })
    }

    /// Defines what methods and types use: functions, NamedTuples, enums, interfaces and plain
    /// classes. `class P` gets the name `<qualifier>.P`, where the qualifier is `"__torch__"` or a
    /// name below it.
    pub fn define_types(&mut self, qualifier: &str, source: &str) -> Result<()> {
        let (qualifier, source) =
            (c_text(qualifier, "the qualifier")?, c_text(source, "the source")?);
        // SAFETY: as above.
        self.change(|raw, err| unsafe {
            sys::tenon_module_define_types(raw, qualifier.as_ptr(), source.as_ptr(), err)
        })
    }

    /// Says which methods PyTorch runs before forward, in this order.
    pub fn set_hooks_before_forward(&mut self, methods: &[&str]) -> Result<()> {
        self.set_hooks(1, methods)
    }

    /// Says which methods PyTorch runs after forward, in this order.
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

    /// Keeps the example inputs of a traced method in archives. Their tensors are written without
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

    /// Gives the module an extra file, which goes into every archive of the module. It replaces an
    /// extra file of that name.
    pub fn set_extra_file(&mut self, name: &str, data: impl AsRef<[u8]>) -> Result<()> {
        let (name, data) = (c_text(name, "the name")?, data.as_ref());
        // SAFETY: as above, and the library copies the data.
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

    /// Removes an extra file.
    pub fn remove_extra_file(&mut self, name: &str) -> Result<()> {
        let name = c_text(name, "the name")?;
        // SAFETY: as above.
        self.change(|raw, err| unsafe {
            sys::tenon_module_remove_extra_file(raw, name.as_ptr(), err)
        })
    }

    /// Replaces a parameter, buffer or attribute. The shape and the element type of a tensor may
    /// change. Every other place below this module that held the same tensor gets the new one too.
    /// A parameter that requires a gradient still requires one.
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

    /// Gives the object at a path a state, in place of the state that it has or of a module's
    /// attributes. The path `""` is the module itself. `set("conv.state[0]", …)` replaces a part of
    /// a state.
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

    /// Replaces a submodule. The new one may be of another class. If the submodule is declared by
    /// an interface, the new one must have that interface.
    pub fn set_submodule(&mut self, path: &str, child: &Module) -> Result<()> {
        let path = c_text(path, "the path")?;
        // SAFETY: as above.
        self.change(|raw, err| unsafe {
            sys::tenon_module_set_submodule(raw, path.as_ptr(), child.as_raw(), err)
        })
    }

    /// Removes a member: a parameter, buffer, attribute, constant, submodule or method.
    pub fn remove(&mut self, path: &str) -> Result<()> {
        let path = c_text(path, "the path")?;
        // SAFETY: as above.
        self.change(|raw, err| unsafe { sys::tenon_module_remove(raw, path.as_ptr(), err) })
    }

    /// Replaces parameters and buffers by their paths, all of them or, on failure, none. The error
    /// names the missing and the unexpected paths.
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
        // SAFETY: as above. There are as many paths as values, and the lists belong to this
        // function.
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
        let list = |raw| NonNull::new(raw).map_or(Ok(Vec::new()), names);
        Ok(LoadReport { missing: list(missing)?, unexpected: list(unexpected)? })
    }

    /// Checks the code as an export does: names, operators, and the numbers, keywords and types of
    /// arguments. A call that the newest PyTorch takes and PyTorch 1.13 refuses is not an error:
    /// [`Module::warnings`] lists it.
    pub fn check(&self) -> Result<()> {
        // SAFETY: self keeps the module.
        check(|err| unsafe { sys::tenon_module_check(self.as_raw(), err) })
    }

    /// Lists all members, in the order in which the class declares them, methods last.
    pub fn members(&self) -> Result<Vec<Member>> {
        // SAFETY: self keeps the module, and out belongs to this function.
        members(make(|out, err| unsafe { sys::tenon_module_members(self.as_raw(), out, err) })?)
    }

    /// Returns the member with a path. [`ErrorKind::NotFound`] names the part of the path that does
    /// not exist.
    pub fn find(&self, path: &str) -> Result<Member> {
        let path = c_text(path, "the path")?;
        // SAFETY: as above.
        members(make(|out, err| unsafe {
            sys::tenon_module_find(self.as_raw(), path.as_ptr(), out, err)
        })?)?
        .into_iter()
        .next()
        .ok_or_else(|| Error::new(ErrorKind::Internal, "the member found is not in the list"))
    }

    /// Returns the submodule with a path.
    pub fn submodule(&self, path: &str) -> Result<Module> {
        self.find(path)?.module.ok_or_else(|| {
            Error::new(ErrorKind::InvalidArgument, format!("{path} is no submodule"))
        })
    }

    /// Returns the value with a path: of a parameter, a buffer, an attribute, or a constant that is
    /// a literal.
    pub fn value(&self, path: &str) -> Result<Value> {
        self.find(path)?
            .value
            .ok_or_else(|| Error::new(ErrorKind::InvalidArgument, format!("{path} has no value")))
    }

    /// Lists the paths of all states below the module, such as `"conv.state"`. A class that has
    /// both `__getstate__` and `__setstate__` has a state in an archive, and no attributes.
    /// [`value`](Module::value) gives a state, or a part of it: `"conv.state[0]"`.
    pub fn states(&self) -> Result<Vec<String>> {
        // SAFETY: as above.
        names(make(|out, err| unsafe { sys::tenon_module_states(self.as_raw(), out, err) })?)
    }

    /// Lists every parameter, every buffer and every tensor of a state below the module, in the
    /// order of the tree. The name of each is its path. A shared tensor has an entry for each of
    /// its paths. Parameters and buffers that are None are left out.
    pub fn tensors(&self) -> Result<Vec<Member>> {
        // SAFETY: as above.
        members(make(|out, err| unsafe { sys::tenon_module_tensors(self.as_raw(), out, err) })?)
    }

    /// Lists the parameters among [`tensors`](Module::tensors).
    pub fn parameters(&self) -> Result<Vec<Member>> {
        Ok(self
            .tensors()?
            .into_iter()
            .filter(|member| member.kind == MemberKind::Parameter)
            .collect())
    }

    /// Lists the buffers among [`tensors`](Module::tensors).
    pub fn buffers(&self) -> Result<Vec<Member>> {
        Ok(self.tensors()?.into_iter().filter(|member| member.kind == MemberKind::Buffer).collect())
    }

    /// Returns the extra files of the module.
    pub fn extra_files(&self) -> Result<Vec<(String, Vec<u8>)>> {
        // SAFETY: as above.
        files(make(|out, err| unsafe { sys::tenon_module_extra_files(self.as_raw(), out, err) })?)
    }

    /// Returns the code of the module's classes and functions, as an export writes it. There is one
    /// file for each qualifier, such as `"__torch__/my/layers.py"`.
    pub fn code_files(&self) -> Result<Vec<(String, String)>> {
        // SAFETY: as above.
        let found = files(make(|out, err| unsafe {
            sys::tenon_module_code_files(self.as_raw(), out, err)
        })?)?;
        Ok(found
            .into_iter()
            .map(|(name, data)| (name, String::from_utf8_lossy(&data).into_owned()))
            .collect())
    }

    /// Returns the values of `CONSTANTS.c0`, `CONSTANTS.c1`, … in the code.
    pub fn constants(&self) -> Result<Vec<Value>> {
        // SAFETY: self keeps the module, and out belongs to this function.
        Value::new(|out, err| unsafe { sys::tenon_module_constants(self.as_raw(), out, err) })?
            .items()
    }

    /// Lists facts about this module that deserve attention, one line each. It lists calls that
    /// only one of PyTorch 1.13 and the newest PyTorch accepts. It also lists what an import found,
    /// such as operators that had another meaning in the archive's version than today.
    pub fn warnings(&self) -> Result<Vec<String>> {
        // SAFETY: as above.
        names(make(|out, err| unsafe { sys::tenon_module_warnings(self.as_raw(), out, err) })?)
    }

    /// Returns the qualified name of the module's class.
    pub fn class_name(&self) -> Result<String> {
        // SAFETY: self keeps the module, and the buffer has the size that the call is told.
        sized(|out, capacity, nbytes, err| unsafe {
            sys::tenon_module_class_name(self.as_raw(), out, capacity, nbytes, err)
        })
    }

    /// Returns the object that the module is, as a [`Value`]. This fails only for an imported
    /// module whose file is bad.
    pub fn object(&self) -> Result<Value> {
        // SAFETY: self keeps the module, and out belongs to this function.
        Value::new(|out, err| unsafe { sys::tenon_module_object(self.as_raw(), out, err) })
    }

    fn change(
        &mut self,
        call: impl FnOnce(*mut sys::tenon_module, *mut *mut sys::tenon_error) -> sys::tenon_status,
    ) -> Result<()> {
        let mut result = Ok(());
        // A change can make last releases.
        panic::release(|| result = check(|err| call(self.as_raw(), err)));
        result
    }

    pub(crate) fn adopt(raw: NonNull<sys::tenon_module>) -> Module {
        Module { raw }
    }

    /// Takes a reference of its own to a module that another owner keeps.
    ///
    /// # Safety
    /// `raw` is NULL or a living module.
    pub(crate) unsafe fn retained(raw: *mut sys::tenon_module) -> Option<Module> {
        // SAFETY: the caller's promise.
        NonNull::new(unsafe { sys::tenon_module_retain(raw) }).map(Module::adopt)
    }
}

/// Two modules are equal if they are the same object, and not only alike.
impl PartialEq for Module {
    fn eq(&self, other: &Module) -> bool {
        if self.raw == other.raw {
            return true;
        }
        match (self.object(), other.object()) {
            (Ok(own), Ok(others)) => own.is_same(&others),
            _ => false,
        }
    }
}

impl Eq for Module {}

impl Hash for Module {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self.object() {
            Ok(object) => object.as_raw().hash(state),
            Err(_) => self.raw.hash(state), // it equals nothing but itself
        }
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.object() {
            Ok(object) => write!(f, "Module({})", object.class_name()),
            Err(error) => write!(f, "Module({error})"),
        }
    }
}
