"""Modules: an object tree with typed members, and the code of its classes.

Built here or imported, changed, and exported as an archive.
"""

from __future__ import annotations

from _collections_abc import Mapping, MutableMapping

from tenon._frozen import Frozen
from tenon._managed import Managed
from tenon._native import ffi, lib
from tenon._snapshot import ReadDict
from tenon._text import decoded, encoded, sized
from tenon.error import NotFound, call
from tenon.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, NoReturn, Self

    from typing_extensions import Buffer

    from tenon.archive import ImportReport

_KIND_NAMES: dict[int, str] = {
    lib.TENON_MEMBER_PARAMETER: "parameter",
    lib.TENON_MEMBER_BUFFER: "buffer",
    lib.TENON_MEMBER_ATTRIBUTE: "attribute",
    lib.TENON_MEMBER_CONSTANT: "constant",
    lib.TENON_MEMBER_SUBMODULE: "submodule",
    lib.TENON_MEMBER_METHOD: "method",
    lib.TENON_MEMBER_STATE: "state",
}


class Member(Frozen):
    """What a name of a module stands for, as it was when it was looked up.

    kind: "parameter", "buffer", "attribute", "constant", "submodule", "method" or "state". type:
    declared; "" of methods. source: of methods, and of constants, as it stands in the class; else
    "". handle: the value, None where there is none. module: of submodules.
    """

    __slots__ = (  # noqa: RUF023 (the order of __init__)
        "kind",
        "name",
        "type",
        "source",
        "handle",
        "module",
    )
    kind: str
    name: str
    type: str
    source: str
    handle: Value | None
    module: Module | None

    def __init__(
        self,
        kind: str,
        name: str,
        type: str,
        source: str,
        handle: Value | None,
        module: Module | None,
    ) -> None:
        self._set(kind=kind, name=name, type=type, source=source, handle=handle, module=module)

    @property
    def value(self) -> Any:
        """The Python value, as module[path] gives it; of what has none, None."""
        return None if self.handle is None else self.handle._read(True)


class LoadResult(Frozen):
    """Unpacks into missing, the paths of the module that were not among the given ones, and
    unexpected, given ones that it has not.
    """

    __slots__ = ("missing", "unexpected")
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]

    def __init__(self, missing: tuple[str, ...], unexpected: tuple[str, ...]) -> None:
        self._set(missing=missing, unexpected=unexpected)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter((self.missing, self.unexpected))


class ExtraFiles(MutableMapping[str, bytes]):
    """The files beside a module, which go into every archive of it: a mapping from name to bytes.

    A str is stored as UTF-8.
    """

    __slots__ = ("_module",)

    def __init__(self, module: Module) -> None:
        self._module = module

    def __getitem__(self, name: str) -> bytes:
        for found, data in self._all():
            if found == name:
                return bytes(data)
        raise KeyError(name)

    def __setitem__(self, name: str, data: Buffer | str) -> None:
        with (
            memoryview(data.encode() if isinstance(data, str) else data) as view,
            ffi.from_buffer(view) as source,
        ):
            call(
                lib.tenon_module_set_extra_file,
                self._module._own(),
                encoded(name, "the name"),
                source,
                view.nbytes,
            )

    def __delitem__(self, name: str) -> None:
        try:
            call(lib.tenon_module_remove_extra_file, self._module._own(), encoded(name, "the name"))
        except NotFound:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, _ in self._all()])

    def __len__(self) -> int:
        return sum(1 for _ in self._all())

    def __repr__(self) -> str:
        return f"<tenon.ExtraFiles {list(self)}>"

    def _all(self) -> Iterator[tuple[str, Any]]:
        return files_of(lib.tenon_module_extra_files, self._module._own())


class States(Mapping[str, "Any"]):
    """The states below a module, by the paths of their objects; "" is the module itself.

    A class that has both __getstate__ and __setstate__ has a state in an archive and no attributes.
    states["conv"] is the state of the object at "conv", and states["conv"] = replaces it, or gives
    a module a state in place of its attributes. module["conv.state[0]"] is a part of it, and can be
    replaced too.
    """

    __slots__ = ("_module",)

    def __init__(self, module: Module) -> None:
        self._module = module

    def __getitem__(self, path: str) -> Any:
        found = self._module.find(_state_path(path)) if path in self._paths() else None
        if found is None:
            raise KeyError(f"{path!r} has no state")
        return found.value

    def __setitem__(self, path: str, state: Any) -> None:
        source = _optional(state)
        try:
            call(
                lib.tenon_module_set_state,
                self._module._own(),
                encoded(path, "the path"),
                ffi.NULL if source is None else source._cdata,
            )
        except NotFound as error:
            raise KeyError(error.strerror) from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths())

    def __len__(self) -> int:
        return len(self._paths())

    def __repr__(self) -> str:
        return f"<tenon.States {list(self)}>"

    def _paths(self) -> list[str]:
        out = ffi.new("tenon_name_list **")
        call(lib.tenon_module_states, self._module._own(), out)
        return [path.removesuffix("state").removesuffix(".") for path in names_of(out[0])]


class Module(Managed):
    """A module: what PyTorch calls a ScriptModule. Nothing in it is ever run here.

    A path names a member, with dots: "encoder.0.weight". m[path] is its value, a Module of a
    submodule, the source of a method; m[path] = replaces it, del m[path] takes it away, `path in m`
    asks. Iterating gives the submodules. Values are plain Python ones, see tenon.value; each is
    checked against its declared type when it is put in. Tensors are not copied. Lists, dicts and
    Objects that come out are snapshots: changing one raises TypeError, because it would not change
    the module. find(path).handle.get() gives plain ones.

    Two Modules over the same object are equal; what is changed through one shows in both. Looking
    is for any number of threads, changing for one, beside no other call on the same tree. After a
    failed change everything is as it was.
    """

    __slots__ = ("_key",)
    _key: int

    def __init__(self, class_name: str) -> None:
        """Make a module without members, of a new class: "MLP", or a qualified name as
        "__torch__.my.MLP".
        """
        self._cdata = None
        self._key = 0
        out = ffi.new("tenon_module **")
        call(lib.tenon_module_new, encoded(class_name, "the class"), out)
        self._take(out[0])

    @classmethod
    def _adopt(cls, pointer: Any) -> Self:
        self = cls.__new__(cls)
        self._take(pointer)
        return self

    def _take(self, pointer: Any) -> None:
        own = ffi.gc(pointer, lib.tenon_module_release)
        out = ffi.new("tenon_value **")
        call(lib.tenon_module_object, own, out)
        # The module keeps the object, and the object its address.
        self._key = int(ffi.cast("uintptr_t", out[0]))
        lib.tenon_value_release(out[0])
        self._cdata = own

    @property
    def class_name(self) -> str:
        """The qualified name of its class."""
        return sized(lib.tenon_module_class_name, self._own())

    @property
    def handle(self) -> Value:
        """The object that it is."""
        out = ffi.new("tenon_value **")
        call(lib.tenon_module_object, self._own(), out)
        return Value._over(ffi.gc(out[0], lib.tenon_value_release))

    def add_parameter(self, name: str, tensor: Any) -> None:
        """Add a parameter; None: one that is None, as `bias=None`.

        An array that has no word for it, as numpy's, becomes a parameter that requires a gradient,
        as with PyTorch's nn.Parameter. A tenon.Tensor, a TensorSpec and a tensor of PyTorch's say
        themselves whether they do.
        """
        from tenon._to_value import with_default_grad

        self._add(lib.tenon_module_add_parameter, name, (), with_default_grad(tensor))

    def add_buffer(self, name: str, tensor: Any) -> None:
        """Add a buffer; None as for a parameter."""
        self._add(lib.tenon_module_add_buffer, name, (), tensor)

    def add_attribute(self, name: str, type: str | None, value: Any) -> None:
        """Add an attribute of a declared type: "Dict[str, int]", classes by their qualified names,
        defined before. None: the type that the value shows."""
        declared = ffi.NULL if type is None else encoded(type, "the type")
        self._add(lib.tenon_module_add_attribute, name, (declared,), Value(value))

    def add_constant(self, name: str, type: str | None, value: Any) -> None:
        """Add a constant, which PyTorch calls Final: it stands in the class and cannot change when
        the module runs.
        """
        declared = ffi.NULL if type is None else encoded(type, "the type")
        self._add(lib.tenon_module_add_constant, name, (declared,), Value(value))

    def add_submodule(self, name: str, child: Module, interface: str | None = None) -> None:
        """Add a module below this one. One that is added in several places is shared by them, here
        and in archives.

        interface: the qualified name of an interface that the child has, by which it is declared;
        None: its own class.
        """
        declared = ffi.NULL if interface is None else encoded(interface, "the interface")
        call(
            lib.tenon_module_add_submodule,
            self._own(),
            encoded(name, "the name"),
            child._own(),
            declared,
        )

    def define(self, source: str) -> None:
        """Define methods: one `def` or more in TorchScript.

        One that is there already is replaced.
        """
        call(lib.tenon_module_define, self._own(), encoded(source, "the source"))

    def define_types(self, qualifier: str, source: str) -> None:
        """Define what methods and types use: functions, NamedTuples, enums, interfaces, plain
        classes.

        qualifier: "__torch__" or a name below it: of `class P` comes "<qualifier>.P".
        """
        call(
            lib.tenon_module_define_types,
            self._own(),
            encoded(qualifier, "the qualifier"),
            encoded(source, "the source"),
        )

    def set_hooks(
        self, *, before: Sequence[str] | None = None, after: Sequence[str] | None = None
    ) -> None:
        """Say which methods PyTorch runs before and after forward, in this order; None: leave it as
        it is.
        """
        own = self._own()
        for before_forward, names in ((1, before), (0, after)):
            if names is not None:
                texts = [ffi.new("char[]", encoded(name, "the method")) for name in names]
                call(
                    lib.tenon_module_set_hooks,
                    own,
                    before_forward,
                    ffi.new("char *[]", texts),
                    len(texts),
                )

    def set_traced_inputs(self, method: str, inputs: Sequence[Any]) -> None:
        """Keep the example inputs of a traced method in archives.

        Their tensors are written without bytes.
        """
        from tenon._to_value import Maker

        maker = Maker()
        values = [maker.make(value) for value in inputs]
        array = ffi.new("tenon_value *[]", values)
        call(
            lib.tenon_module_set_traced_inputs,
            self._own(),
            encoded(method, "the method"),
            array,
            len(values),
        )

    @property
    def extra_files(self) -> ExtraFiles:
        """The files beside the module: a mapping from name to bytes, to be changed as a dict."""
        self._own()
        return ExtraFiles(self)

    @property
    def state(self) -> States:
        """The states of objects below the module, and of the module itself: a mapping from their
        paths.
        """
        self._own()
        return States(self)

    def __getitem__(self, path: str) -> Any:
        try:
            member = self.find(path)
        except NotFound as error:
            raise KeyError(error.strerror) from error
        if member.module is not None:
            return member.module
        return member.source if member.handle is None else member.value

    def __setitem__(self, path: str, value: Any) -> None:
        """Replace a parameter, buffer, attribute, submodule or a part of a state. A tensor may have
        another shape and element type; whatever else below this module held the same tensor has the
        new one too. A parameter that requires a gradient goes on to require one."""
        own, name = self._own(), encoded(path, "the path")
        try:
            if isinstance(value, Module):
                call(lib.tenon_module_set_submodule, own, name, value._own())
            else:
                source = _optional(value)
                call(lib.tenon_module_set, own, name, ffi.NULL if source is None else source._cdata)
        except NotFound as error:
            raise KeyError(error.strerror) from error

    def __delitem__(self, path: str) -> None:
        try:
            call(lib.tenon_module_remove, self._own(), encoded(path, "the path"))
        except NotFound as error:
            raise KeyError(error.strerror) from error

    def __contains__(self, path: object) -> bool:
        if not isinstance(path, str):
            return False
        try:
            self.find(path)
        except NotFound:
            return False
        return True

    def __iter__(self) -> Iterator[Module]:
        return iter(self.submodules.values())

    @property
    def submodules(self) -> dict[str, Module]:
        """The modules right below this one, by their names."""
        return ReadDict(
            {member.name: member.module for member in self.members() if member.module is not None}
        )

    def find(self, path: str) -> Member:
        """The member of a path; raises NotFound, which names the part that is not there."""
        (found,) = _members(lib.tenon_module_find, self._own(), encoded(path, "the path"))
        return found

    def members(self) -> list[Member]:
        """All members, in the order in which the class declares them, methods last."""
        return _members(lib.tenon_module_members, self._own())

    def tensors(self) -> dict[str, Any]:
        """Every parameter, buffer and tensor of a state below, by its path, in the order of the
        tree; a shared one is the same object under each of its paths. Each is a tenon.Tensor, a
        tenon.TensorSpec, or None."""
        return self._tensors(("parameter", "buffer", "state"))

    def parameters(self) -> dict[str, Any]:
        """The parameters among tensors."""
        return self._tensors(("parameter",))

    def buffers(self) -> dict[str, Any]:
        """The buffers among tensors."""
        return self._tensors(("buffer",))

    def _tensors(self, kinds: tuple[str, ...]) -> dict[str, Any]:
        from tenon._from_value import Reader

        reader = Reader()
        found = _members(lib.tenon_module_tensors, self._own())
        return {
            member.name: None if member.handle is None else reader.read(member.handle._cdata)
            for member in found
            if member.kind in kinds
        }

    def load(
        self,
        tensors: Mapping[str, Any],
        allow_missing: bool = False,
        allow_unexpected: bool = False,
        *,
        check_only: bool = False,
    ) -> LoadResult:
        """Replace parameters and buffers by their paths, all of them or, on failure, none.

        allow_missing: paths that are not given keep what they have. allow_unexpected: given paths
        that the module has not are left out. check_only: change nothing, say what would be missing
        and unexpected.
        """
        from tenon._to_value import Maker

        maker = Maker()
        paths, values = [], []
        for path in tensors.keys():
            paths.append(ffi.new("char[]", encoded(path, "the path")))
            tensor = tensors[path]
            values.append(ffi.NULL if tensor is None else maker.make(tensor))
        flags = (
            (lib.TENON_LOAD_ALLOW_MISSING if allow_missing else 0)
            | (lib.TENON_LOAD_ALLOW_UNEXPECTED if allow_unexpected else 0)
            | (lib.TENON_LOAD_CHECK_ONLY if check_only else 0)
        )
        missing, unexpected = ffi.new("tenon_name_list **"), ffi.new("tenon_name_list **")
        arrays = ffi.new("char *[]", paths), ffi.new("tenon_value *[]", values)
        call(lib.tenon_module_load, self._own(), *arrays, len(paths), flags, missing, unexpected)
        return LoadResult(names_of(missing[0]), names_of(unexpected[0]))

    def check(self) -> None:
        """Check the code as an export does: names, operators, and the numbers, keywords and types
        of arguments.

        A call that the newest PyTorch takes and PyTorch 1.13 refuses is no error: see `warnings`.
        """
        call(lib.tenon_module_check, self._own())

    def opnames(self, methods: Sequence[str] | str | None = None) -> list[str]:
        """List the operators that bytecode calls, such as "aten::add.Tensor": each once, in the
        order of the names. A mobile build of PyTorch needs these. Nothing is written.

        methods: names of methods, or one text with commas between them: the operators of these and
        of what they call. None: all methods.
        """
        text = methods_text(methods)
        out = ffi.new("tenon_name_list **")
        call(lib.tenon_export_opnames, self._own(), ffi.NULL if text is None else text, out)
        return list(names_of(out[0]))

    @property
    def code(self) -> dict[str, str]:
        """The code of its classes and functions, one file for each qualifier:
        "__torch__/my/layers.py".
        """
        files = files_of(lib.tenon_module_code_files, self._own())
        return ReadDict(
            {name: bytes(data).decode("utf-8", "surrogateescape") for name, data in files}
        )

    @property
    def constants(self) -> tuple[Any, ...]:
        """What CONSTANTS.c0, CONSTANTS.c1, ... are in the code."""
        out = ffi.new("tenon_value **")
        call(lib.tenon_module_constants, self._own(), out)
        found: tuple[Any, ...] = Value._over(ffi.gc(out[0], lib.tenon_value_release))._read(True)
        return found

    @property
    def report(self) -> ImportReport | None:
        """What the import found; None unless this is the module that an import gave."""
        from tenon.archive import report_of

        return report_of(self._own())

    @property
    def version(self) -> int | None:
        """The version of the operators of an imported archive."""
        report = self.report
        return None if report is None else report.version

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is remarkable about this module, one line each.

        These are calls that PyTorch 1.13 refuses and the newest PyTorch takes, or the other way
        round, and what an import found, such as operators that have another meaning in the
        archive's version than today.
        """
        out = ffi.new("tenon_name_list **")
        call(lib.tenon_module_warnings, self._own(), out)
        return names_of(out[0])

    def _add(self, function: Any, name: str, more: tuple[Any, ...], value: Any) -> None:
        source = _optional(value)
        call(
            function,
            self._own(),
            encoded(name, "the name"),
            *more,
            ffi.NULL if source is None else source._cdata,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Module):
            return NotImplemented
        return self is other or (self._key == other._key and not self.closed and not other.closed)

    def __hash__(self) -> int:
        return hash(self._key)

    def __copy__(self) -> NoReturn:
        raise TypeError(
            "a Module is not copied: write it with tenon.export_module(module, io.BytesIO()) and"
            " read the bytes with tenon.import_module"
        )

    def __deepcopy__(self, memo: Any) -> NoReturn:
        self.__copy__()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "a Module has no pickled form of its own: tenon.export_module writes it as an archive"
        )

    def __repr__(self) -> str:
        return "<tenon.Module, closed>" if self.closed else f"<tenon.Module {self.class_name}>"


def methods_text(methods: Sequence[str] | str | None) -> bytes | None:
    """Names of methods as C takes them: with commas between them."""
    if methods is None:
        return None
    return encoded(methods if isinstance(methods, str) else ",".join(methods), "methods")


def _state_path(path: str) -> str:
    return f"{path}.state" if path else "state"


def _optional(value: Any) -> Value | None:
    return None if value is None else Value(value)


def _members(function: Any, *arguments: Any) -> list[Member]:
    out = ffi.new("tenon_member_list **")
    call(function, *arguments, out)
    own = ffi.gc(out[0], lib.tenon_member_list_release)
    each = ffi.new("tenon_member *")
    each.struct_size = ffi.sizeof("tenon_member")
    found = []
    for index in range(lib.tenon_member_list_count(own)):
        call(lib.tenon_member_list_get, own, index, each)
        handle = None if each.value == ffi.NULL else Value._borrow(each.value)
        module = (
            None if each.module == ffi.NULL else Module._adopt(lib.tenon_module_retain(each.module))
        )
        found.append(
            Member(
                _KIND_NAMES[each.kind],
                decoded(each.name),
                decoded(each.type),
                decoded(each.source),
                handle,
                module,
            )
        )
    return found


def names_of(pointer: Any) -> tuple[str, ...]:
    own = ffi.gc(pointer, lib.tenon_name_list_release)
    return tuple(
        decoded(lib.tenon_name_list_get(own, index))
        for index in range(lib.tenon_name_list_count(own))
    )


def files_of(function: Any, own: Any, *arguments: Any) -> Iterator[tuple[str, Any]]:
    """Names, and views of the bytes that are good until the next one."""
    out = ffi.new("tenon_file_list **")
    call(function, own, *arguments, out)
    files = ffi.gc(out[0], lib.tenon_file_list_release)
    each = ffi.new("tenon_file *")
    for index in range(lib.tenon_file_list_count(files)):
        call(lib.tenon_file_list_get, files, index, each)
        yield decoded(each.name), ffi.buffer(each.data, each.nbytes)
