"""Converts plain Python values into C values. tenon.value and tenon.module use it."""

from __future__ import annotations

from tenon._native import ffi, lib
from tenon._options import CPU, CUDA_HOST
from tenon._text import encoded, optional_text, texts
from tenon.dlpack import from_dlpack
from tenon.error import TenonError, Unsupported, call, make, owned
from tenon.tensor import Tensor, from_numpy
from tenon.tensor_spec import TensorSpec, to_c
from tenon.value import Device, Enum, NamedTuple, Object, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def tensor_of(source: Any) -> Tensor:
    """Make a tensor over an array of numpy, PyTorch or another framework. The bytes are copied only
    if the framework cannot hand them out as they lie.
    """
    if isinstance(source, Tensor):
        return source
    if not hasattr(source, "__dlpack__"):
        raise TypeError(
            "a tensor is a tenon.Tensor, a numpy array or what has __dlpack__, not"
            f" {type(source).__name__}"
        )
    requires_grad = bool(getattr(source, "requires_grad", False))
    if requires_grad:
        # PyTorch exports only tensors that autograd does not track.
        source = source.detach()
    tensor = _shared(source)
    if tensor is None:
        tensor = from_numpy(source)
    return _with_grad(tensor) if requires_grad else tensor


def _shared(source: Any) -> Tensor | None:
    try:
        tensor = from_dlpack(source)
    except TenonError:
        raise
    except (BufferError, RuntimeError, TypeError, ValueError):
        # The framework itself refuses: numpy does for memory that it may not write, for other byte
        # orders and for types that other libraries added to it.
        if int(source.__dlpack_device__()[0]) not in (CPU, CUDA_HOST):
            # numpy cannot reach a device, and its error would hide this one.
            raise
        return None
    if all(step >= 0 for step in tensor.strides):
        return tensor
    # A module has no strides that run backwards.
    if tensor._device_numbers[0] != CPU:
        raise make(
            Unsupported,
            f"a tensor on {tensor.device} with the negative strides {tensor.strides}: copy it in"
            " its framework",
        )
    return None


def _with_grad(tensor: Tensor) -> Tensor:
    return tensor._over(tensor.storage, lib.TENON_TENSOR_REQUIRES_GRAD)


def with_default_grad(source: Any) -> Any:
    """The tensor that becomes a parameter. If the array's framework knows no gradients, the
    parameter requires one, provided that its elements can.
    """
    if (
        isinstance(source, Tensor)
        or not hasattr(source, "__dlpack__")
        or hasattr(source, "requires_grad")
    ):
        return source
    tensor = tensor_of(source)
    return _with_grad(tensor) if tensor.dtype.startswith(("float", "bfloat", "complex")) else tensor


class Maker:
    """One conversion. A Python object that occurs twice becomes one value."""

    __slots__ = ("_known",)
    _known: dict[int, tuple[Any, Any]]

    def __init__(self) -> None:
        # By id. Each entry has the object, which keeps its id in use, and its value. The value is
        # None while the contents of the object are being converted.
        self._known = {}

    def typed(self, source: Any, type: str | None) -> Any:
        """As make. `type` is the type of a list or dict, and a type that any other value must
        have.
        """
        if type is None:
            return self.make(source)
        name = encoded(type, "the type")
        if isinstance(source, list):
            return self._list(source, name)
        if isinstance(source, dict):
            return self._dict(source, name)
        own = self.make(source)
        call(lib.tenon_value_check, own, name)
        return own

    def make(self, source: Any) -> Any:
        """Convert an object into a cdata that owns a reference."""
        kind = type(source)
        if kind not in _PLAIN and kind not in _SHARED:
            kind = _kind_of(source)
        if kind in _PLAIN:
            return _PLAIN[kind](source)
        known = self._known.get(id(source))
        if known is not None:
            if known[1] is None:
                raise ValueError(f"a {type(source).__name__} that contains itself can be no value")
            return known[1]
        self._known[id(source)] = source, None
        try:
            own = _SHARED[kind](self, source)
        except BaseException:
            del self._known[id(source)]
            raise
        self._known[id(source)] = source, own
        return own

    def _tensor(self, source: Any) -> Any:
        address = tensor_of(source)._retained()
        own = ffi.gc(ffi.cast("tenon_tensor *", address), lib.tenon_tensor_release)
        return _new(lib.tenon_value_new_tensor, own)

    def _tensor_spec(self, source: TensorSpec) -> Any:
        spec = to_c(source, self.make)
        return _new(lib.tenon_value_new_tensor_from_spec, spec.cdata)

    def _tuple(self, source: tuple[Any, ...]) -> Any:
        name = source.class_name if isinstance(source, NamedTuple) else None
        array, keep = self.array(source)
        own = optional_text(name, "the class"), array, len(keep)
        return _new(lib.tenon_value_new_tuple, *own)

    def _list(self, source: list[Any], type: Any = ffi.NULL) -> Any:
        array, keep = self.array(source)
        return _new(lib.tenon_value_new_list, type, array, len(keep))

    def _dict(self, source: dict[Any, Any], type: Any = ffi.NULL) -> Any:
        keys, keep = self.array(source.keys())
        values, _keep = self.array(source.values())
        return _new(lib.tenon_value_new_dict, type, keys, values, len(keep))

    def _enum(self, source: Enum) -> Any:
        name = encoded(source.class_name, "the class")
        return _new(lib.tenon_value_new_enum, name, self.make(source.value))

    def _object(self, source: Object) -> Any:
        name = encoded(source.class_name, "the class")
        if source.is_opaque:
            return _new(lib.tenon_value_new_opaque, name, self.make(source.state))
        names, _texts = texts(source.attributes, "the attribute")
        values, keep = self.array(source.attributes.values())
        return _new(lib.tenon_value_new_object, name, names, values, len(keep))

    def array(self, sources: Any) -> tuple[Any, list[Any]]:
        """An array of values, which the list keeps alive."""
        keep = [self.make(source) for source in sources]
        return ffi.new("tenon_value *[]", keep), keep


def _new(function: Any, *arguments: Any) -> Any:
    return owned("tenon_value", function, *arguments)


def _kind_of(source: Any) -> type:
    """The type by which an object of another type is converted: its base, or that of a tensor or of
    a number of numpy's, if the object looks like one.
    """
    for kind in (*_PLAIN, *_SHARED):
        if isinstance(source, kind):
            return kind
    if hasattr(source, "__dlpack__"):
        return Tensor
    if hasattr(source, "dtype") and hasattr(source, "item"):
        return _NumpyScalar
    raise _refusal(source)


def _refusal(source: Any) -> TypeError:
    return TypeError(
        f"a {type(source).__name__} can be no value: use None, bool, int, float, complex, str, a"
        " tensor, tuple, list or dict, or tenon.NamedTuple, Enum, Object, Device, TensorSpec or"
        " Value"
    )


class _NumpyScalar:
    """Stands for the types of numpy's numbers, which are not imported here."""


def _str(source: str) -> Any:
    data = source.encode("utf-8", "surrogateescape")
    return _new(lib.tenon_value_new_str, data, len(data))


def _numpy_scalar(source: Any) -> Any:
    plain = source.item()
    if type(plain) is type(source):
        raise _refusal(source)
    return Maker().make(plain)


# Values without identity: two places never share one of them, though Python has one True and one 7.
# bool comes before int, because a bool is an int.
_PLAIN: dict[type, Callable[[Any], Any]] = {
    type(None): lambda source: _new(lib.tenon_value_new_none),
    bool: lambda source: _new(lib.tenon_value_new_bool, source),
    int: lambda source: _new(lib.tenon_value_new_int, int(source)),
    float: lambda source: _new(lib.tenon_value_new_float, float(source)),
    complex: lambda source: _new(lib.tenon_value_new_complex, source.real, source.imag),
    str: _str,
    Device: lambda source: _new(lib.tenon_value_new_device, encoded(source.name, "the device")),
    Value: lambda source: source._cdata,
    _NumpyScalar: _numpy_scalar,
}

_SHARED: dict[type, Callable[[Maker, Any], Any]] = {
    Tensor: Maker._tensor,
    tuple: Maker._tuple,
    list: Maker._list,
    dict: Maker._dict,
    Enum: Maker._enum,
    Object: Maker._object,
    TensorSpec: Maker._tensor_spec,
}
