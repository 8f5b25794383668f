# Generated at build time from the C header; typed where it is used.
from typing import Any

ffi: Any
lib: Any
