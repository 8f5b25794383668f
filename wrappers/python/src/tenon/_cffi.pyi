# cffi generates this module at build time from the C header. Its users declare the types.
from typing import Any

ffi: Any
lib: Any
