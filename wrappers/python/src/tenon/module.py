"""Modules: a tree of objects with typed members, and the code of their classes.

A module is built here or imported. It can be changed, and exported as an archive.
"""

from __future__ import annotations

from _collections_abc import Mapping, MutableMapping

from tenon import _native_ext
from tenon._frozen import Frozen
from tenon._managed import Managed
from tenon._native import address_of, ffi, lib
from tenon._options import flags, names_of, words
from tenon._reports import report_of
from tenon._snapshot import ReadDict
from tenon._text import decoded, encoded, optional_text, sized, texts
from tenon.error import Corrupt, NotFound, call, filled, given, key_errors, owned
from tenon.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, NoReturn, Self

    from typing_extensions import Buffer

    from tenon._reports import ImportReport

_KIND_NAMES = names_of(
    words("MEMBER", "parameter buffer attribute constant submodule method state")
)


class Member(Frozen):
    """One member of a module, in the state that it had when it was looked up.

    - kind: "parameter", "buffer", "attribute", "constant", "submodule", "method" or "state".
    - type: The declared type, or "" for a method.
    - source: The source of a method, or of a constant as it stands in the class. Otherwise "".
    - handle: The value, or None if the member has none.
    - module: The module, for a submodule.
    """

    kind: str
    name: str
    type: str
    source: str
    handle: Value | None
    module: Module | None
    __slots__ = tuple(__annotations__)

    @property
    def value(self) -> Any:
        """The Python value, as module[path] gives it, or None if the member has no value."""
        return None if self.handle is None else self.handle._read(True)


class LoadResult(Frozen):
    """The result of Module.load. It unpacks into missing and unexpected.

    missing lists the paths of the module that were not given, and unexpected the given paths that
    the module does not have.
    """

    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    __slots__ = tuple(__annotations__)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter((self.missing, self.unexpected))


class ExtraFiles(MutableMapping[str, bytes]):
    """The extra files of a module, which go into every archive of it: a mapping from name to bytes.

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
        own, key = self._module._own(), encoded(name, "the name")
        content = data.encode() if isinstance(data, str) else data
        with memoryview(content) as view, ffi.from_buffer(view) as source:
            call(lib.tenon_module_set_extra_file, own, key, source, view.nbytes)

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
    """The states of the objects below a module, by the paths of the objects. "" is the module
    itself.

    A class that has both `__getstate__` and `__setstate__` has a state in an archive and no
    attributes. states["conv"] is the state of the object at "conv". An assignment to states["conv"]
    replaces that state, or gives a module a state in place of its attributes.
    module["conv.state[0]"] is a part of the state, and can be replaced too.
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
        source, name = _optional(state), encoded(path, "the path")
        with key_errors():
            call(lib.tenon_module_set_state, self._module._own(), name, source)

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths())

    def __len__(self) -> int:
        return len(self._paths())

    def __repr__(self) -> str:
        return f"<tenon.States {list(self)}>"

    def _paths(self) -> list[str]:
        return [
            path.removesuffix("state").removesuffix(".")
            for path in names_by(lib.tenon_module_states, self._module._own())
        ]


class Module(Managed):
    """A module is what PyTorch calls a ScriptModule. Tenon never runs the code in it.

    A path names a member, with dots: "encoder.0.weight". m[path] is its value: a Module for a
    submodule, the source for a method. m[path] = value replaces it, del m[path] removes it, and
    `path in m` tests for it. Iteration gives the submodules.

    Values are plain Python values (see tenon.value). Each is checked against its declared type when
    it is put in. Tensors are not copied. The lists, dicts and Objects that come out are snapshots.
    Changing one raises TypeError, because it would not change the module. find(path).handle.get()
    gives plain ones.

    Two Modules over the same object are equal, and a change through one shows in both. Any number
    of threads may read and change modules, also those of one tree: a change waits for other calls.
    After a failed change everything is as it was.
    """

    __slots__ = ("_known_key",)
    _known_key: int | None  # None: nobody has asked for it

    def __init__(self, class_name: str) -> None:
        """Make a module without members, of a new class: "MLP", or a qualified name such as
        `"__torch__.my.MLP"`.
        """
        self._cdata = None
        self._known_key = None
        self._take(given("tenon_module *", lib.tenon_module_new, encoded(class_name, "the class")))

    @classmethod
    def _adopt(cls, pointer: Any) -> Self:
        self = cls.__new__(cls)
        self._take(pointer)
        return self

    def _take(self, pointer: Any) -> None:
        self._known_key = None
        self._cdata = ffi.gc(pointer, lib.tenon_module_release)

    def _key(self) -> int:
        """The address of the object. The module keeps the object, and the object its address."""
        if self._known_key is None:
            self._known_key = address_of(owned("tenon_value", lib.tenon_module_object, self._own()))
        return self._known_key

    @property
    def class_name(self) -> str:
        """The qualified name of the module's class."""
        return sized(lib.tenon_module_class_name, self._own())

    @property
    def handle(self) -> Value:
        """The object of the module as a Value."""
        return Value._over(owned("tenon_value", lib.tenon_module_object, self._own()))

    def add_parameter(self, name: str, tensor: Any) -> None:
        """Add a parameter. None adds a parameter whose value is None, as with `bias=None`.

        A tenon.Tensor, a TensorSpec and a PyTorch tensor say whether they require a gradient. Any
        other array, such as numpy's, becomes a parameter that requires one if its elements can, as
        with PyTorch's nn.Parameter.
        """
        from tenon._to_value import with_default_grad

        self._add(lib.tenon_module_add_parameter, name, (), with_default_grad(tensor))

    def add_buffer(self, name: str, tensor: Any) -> None:
        """Add a buffer. None is as for a parameter."""
        self._add(lib.tenon_module_add_buffer, name, (), tensor)

    def add_attribute(self, name: str, type: str | None, value: Any) -> None:
        """Add an attribute of a declared type, such as "Dict[str, int]". Classes are named by their
        qualified names, and must be defined before. None takes the type that the value shows.
        """
        declared = optional_text(type, "the type")
        self._add(lib.tenon_module_add_attribute, name, (declared,), Value(value))

    def add_constant(self, name: str, type: str | None, value: Any) -> None:
        """Add a constant, which PyTorch calls Final. It stands in the class and cannot change when
        the module runs.
        """
        declared = optional_text(type, "the type")
        self._add(lib.tenon_module_add_constant, name, (declared,), Value(value))

    def add_submodule(self, name: str, child: Module, interface: str | None = None) -> None:
        """Add a module below this one. A module that is added in several places is shared by them,
        here and in archives.

        interface is the qualified name of an interface of the child, by which the member is
        declared. None declares it by its own class.
        """
        own, declared = self._own(), optional_text(interface, "the interface")
        member = encoded(name, "the name")
        call(lib.tenon_module_add_submodule, own, member, child._own(), declared)

    def define(self, source: str) -> None:
        """Define methods: one `def` or more in TorchScript.

        An existing method of the same name is replaced.
        """
        call(lib.tenon_module_define, self._own(), encoded(source, "the source"))

    def define_types(self, qualifier: str, source: str) -> None:
        """Define the names that methods and types use: functions, NamedTuples, enums, interfaces
        and plain classes.

        qualifier is `"__torch__"` or a name below it. `class P` becomes "<qualifier>.P".
        """
        where, code = encoded(qualifier, "the qualifier"), encoded(source, "the source")
        call(lib.tenon_module_define_types, self._own(), where, code)

    def set_hooks(
        self, *, before: Sequence[str] | None = None, after: Sequence[str] | None = None
    ) -> None:
        """Set the methods that PyTorch runs before and after forward, in this order. None leaves
        the list unchanged.
        """
        own = self._own()
        for before_forward, names in ((1, before), (0, after)):
            if names is not None:
                array, keep = texts(names, "the method")
                call(lib.tenon_module_set_hooks, own, before_forward, array, len(keep))

    def set_traced_inputs(self, method: str, inputs: Sequence[Any]) -> None:
        """Keep the example inputs of a traced method in archives.

        Their tensors are written without bytes.
        """
        from tenon._to_value import Maker

        array, keep = Maker().array(inputs)
        name = encoded(method, "the method")
        call(lib.tenon_module_set_traced_inputs, self._own(), name, array, len(keep))

    @property
    def extra_files(self) -> ExtraFiles:
        """The extra files of the module: a mapping from name to bytes, which can be changed like a
        dict.
        """
        self._own()
        return ExtraFiles(self)

    @property
    def state(self) -> States:
        """The states of the module and of the objects below it: a mapping from their paths."""
        self._own()
        return States(self)

    def __getitem__(self, path: str) -> Any:
        with key_errors():
            member = self.find(path)
        if member.module is not None:
            return member.module
        return member.source if member.handle is None else member.value

    def __setitem__(self, path: str, value: Any) -> None:
        """Replace a parameter, a buffer, an attribute, a submodule or a part of a state.

        A tensor may have another shape and element type. Every other member below this module that
        held the same tensor gets the new one too. A parameter that requires a gradient continues to
        require one.
        """
        own, name = self._own(), encoded(path, "the path")
        with key_errors():
            if isinstance(value, Module):
                call(lib.tenon_module_set_submodule, own, name, value._own())
            else:
                call(lib.tenon_module_set, own, name, _optional(value))

    def __delitem__(self, path: str) -> None:
        with key_errors():
            call(lib.tenon_module_remove, self._own(), encoded(path, "the path"))

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
        """The modules directly below this one, by their names."""
        return ReadDict(
            {member.name: member.module for member in self.members() if member.module is not None}
        )

    def find(self, path: str) -> Member:
        """The member of a path. Raises NotFound, which names the part that does not exist."""
        (found,) = _members(lib.tenon_module_find, self._own(), encoded(path, "the path"))
        return found

    def members(self) -> list[Member]:
        """All members, in the order in which the class declares them. The methods come last."""
        return _members(lib.tenon_module_members, self._own())

    def tensors(self) -> dict[str, Any]:
        """Every parameter and buffer, and every tensor of a state, below this module, by its path
        and in the order of the tree.

        A shared tensor is the same object under each of its paths. Each is a tenon.Tensor, a
        tenon.TensorSpec, or None.
        """
        return self._tensors(("parameter", "buffer", "state"))

    def parameters(self) -> dict[str, Any]:
        """The tensors that are parameters."""
        return self._tensors(("parameter",))

    def buffers(self) -> dict[str, Any]:
        """The tensors that are buffers."""
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
        """Replace parameters and buffers by their paths: all of them or, on failure, none.

        - allow_missing: Paths that are not given keep their tensors.
        - allow_unexpected: Given paths that the module does not have are left out.
        - check_only: Change nothing, and report what would be missing and unexpected.
        """
        from tenon._to_value import Maker

        maker = Maker()
        paths, keep = texts(tensors.keys(), "the path")
        found = [tensors[path] for path in tensors.keys()]
        values = [ffi.NULL if tensor is None else maker.make(tensor) for tensor in found]
        chosen = flags(
            "LOAD",
            allow_missing=allow_missing,
            allow_unexpected=allow_unexpected,
            check_only=check_only,
        )
        missing, unexpected = ffi.new("tenon_name_list **"), ffi.new("tenon_name_list **")
        arrays = paths, ffi.new("tenon_value *[]", values)
        call(lib.tenon_module_load, self._own(), *arrays, len(keep), chosen, missing, unexpected)
        return LoadResult(_names_of(missing[0]), _names_of(unexpected[0]))

    def check(self) -> None:
        """Check the code as an export does: names, operators, and the numbers, keywords and types
        of arguments.

        A call that the newest PyTorch accepts and PyTorch 1.13 refuses is no error. See `warnings`.
        """
        call(lib.tenon_module_check, self._own())

    def opnames(self, methods: Sequence[str] | str | None = None) -> list[str]:
        """List the operators that bytecode calls, such as "aten::add.Tensor", each once and sorted
        by name. A mobile build of PyTorch needs this list. Nothing is written.

        methods is a list of names, or one text with commas between them. The list then has the
        operators of these methods and of the functions that they call. None takes all methods.
        """
        return list(names_by(lib.tenon_export_opnames, self._own(), methods_text(methods)))

    @property
    def code(self) -> dict[str, str]:
        """The code of the module's classes and functions, with one file for each qualifier:
        "`__torch__`/my/layers.py".
        """
        files = files_of(lib.tenon_module_code_files, self._own())
        return ReadDict(
            {name: bytes(data).decode("utf-8", "surrogateescape") for name, data in files}
        )

    @property
    def constants(self) -> tuple[Any, ...]:
        """The values of CONSTANTS.c0, CONSTANTS.c1, ... in the code."""
        own = owned("tenon_value", lib.tenon_module_constants, self._own())
        found: tuple[Any, ...] = Value._over(own)._read(True)
        return found

    @property
    def report(self) -> ImportReport | None:
        """The report of the import, or None unless this module is the result of an import."""
        return report_of(self._own())

    @property
    def version(self) -> int | None:
        """The operator version of an imported archive, or None for a module that was built here."""
        report = self.report
        return None if report is None else report.version

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about this module, one line each.

        They name calls that PyTorch 1.13 refuses and the newest PyTorch accepts, or the other way
        round. They also tell what an import found, such as operators that had another meaning in
        the archive's version than today.
        """
        return names_by(lib.tenon_module_warnings, self._own())

    def _add(self, function: Any, name: str, more: tuple[Any, ...], value: Any) -> None:
        call(function, self._own(), encoded(name, "the name"), *more, _optional(value))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Module):
            return NotImplemented
        if self is other:
            return True
        return not self.closed and not other.closed and self._key() == other._key()

    def __hash__(self) -> int:
        # A module that was closed before anyone asked for its key equals nothing but itself.
        return hash(id(self) if self.closed and self._known_key is None else self._key())

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

    def _shown(self) -> str:
        try:
            return f" {self.class_name}"
        except Corrupt:
            return " of a file that is bad"


def methods_text(methods: Sequence[str] | str | None) -> Any:
    """Names of methods as the C library takes them: with commas between them. NULL for None."""
    if methods is not None and not isinstance(methods, str):
        methods = ",".join(methods)
    return optional_text(methods, "methods")


def _state_path(path: str) -> str:
    return f"{path}.state" if path else "state"


def _optional(value: Any) -> Any:
    """The C value of an object. NULL for None."""
    return ffi.NULL if value is None else Value(value)._cdata


def _members(function: Any, *arguments: Any) -> list[Member]:
    own = owned("tenon_member_list", function, *arguments)
    found = []
    for index in range(lib.tenon_member_list_count(own)):
        each = filled("tenon_member", lib.tenon_member_list_get, own, index)
        handle = None if each.value == ffi.NULL else Value._borrow(each.value)
        child = each.module
        module = None if child == ffi.NULL else Module._adopt(lib.tenon_module_retain(child))
        strings = decoded(each.name), decoded(each.type), decoded(each.source)
        found.append(Member(_KIND_NAMES[each.kind], *strings, handle, module))
    return found


def names_by(function: Any, *arguments: Any) -> tuple[str, ...]:
    """The names in the list that a function gives."""
    return _names_of(given("tenon_name_list *", function, *arguments))


def _names_of(pointer: Any) -> tuple[str, ...]:
    own = ffi.gc(pointer, lib.tenon_name_list_release)
    return tuple(_native_ext.listed_names(address_of(own)))


def files_of(function: Any, own: Any, *arguments: Any) -> Iterator[tuple[str, Any]]:
    """Names, and views of the bytes. A view is valid until the next one is given."""
    files = owned("tenon_file_list", function, own, *arguments)
    for index in range(lib.tenon_file_list_count(files)):
        each = given("tenon_file", lib.tenon_file_list_get, files, index)
        yield decoded(each.name), ffi.buffer(each.data, each.nbytes)
