"""Reports headers of the C++ wrapper that use a standard library name without including its header.

usage: std_includes.py FOLDER

compile.sh precompiles the standard library's headers for all of the wrapper's headers, so the
compiler there cannot notice a missing include.
"""

import re
import sys
from pathlib import Path

# Maps each header of the standard library to the names that the wrapper uses from it.
NAMES = {
    "algorithm": (
        "all_of any_of copy copy_n equal fill find find_if for_each max min none_of reverse sort"
    ),
    "array": "array",
    "atomic": "atomic atomic_ref memory_order_acquire memory_order_release",
    "chrono": "chrono",
    "complex": "complex",
    "concepts": (
        "constructible_from convertible_to derived_from floating_point integral invocable same_as"
        " signed_integral"
    ),
    "cstddef": "byte max_align_t nullptr_t ptrdiff_t size_t",
    "cstdint": "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t uintptr_t",
    "cstdio": "fprintf snprintf",
    "cstdlib": "abort free malloc",
    "cstring": "memcmp memcpy memset strcmp strerror strlen",
    "exception": "current_exception exception exception_ptr rethrow_exception",
    "functional": "function hash invoke",
    "initializer_list": "initializer_list",
    "iterator": (
        "back_inserter begin data default_sentinel default_sentinel_t end make_move_iterator size"
    ),
    "limits": "numeric_limits",
    "map": "map",
    "memory": "make_shared make_unique shared_ptr unique_ptr weak_ptr",
    "optional": "nullopt nullopt_t optional",
    "span": "as_bytes as_writable_bytes span",
    "stdfloat": "bfloat16_t float16_t",
    "stdexcept": "invalid_argument logic_error out_of_range runtime_error",
    "string": "string to_string",
    "string_view": "string_view",
    "tuple": "tuple tie",
    "type_traits": (
        "conditional_t decay_t enable_if_t false_type invoke_result_t is_const_v is_convertible_v"
        " is_invocable_v is_same_v is_trivially_copyable_v is_void_v make_unsigned_t remove_const_t"
        " remove_cv_t remove_cvref_t remove_reference_t true_type underlying_type_t"
    ),
    "unordered_map": "unordered_map",
    "utility": (
        "as_const exchange forward in_place in_range index_sequence make_index_sequence move pair"
        " swap"
    ),
    "variant": "get_if holds_alternative monostate variant variant_size_v visit",
    "vector": "erase_if vector",
}
HEADER_OF = {name: header for header, names in NAMES.items() for name in names.split()}
# The standard says that every container's or view's header provides these functions.
OF_EVERY_RANGE = {"begin", "data", "end", "size"}
RANGES = {"array", "initializer_list", "iterator", "map", "span", "string", "string_view", "vector"}


def code_of(text: str) -> str:
    """Returns the text without comments and string literals."""
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', " ", text, flags=re.DOTALL)


def main() -> int:
    folder = Path(sys.argv[1])
    files = sorted(folder.rglob("*.hpp"))
    problems = []
    for file in files:
        text = file.read_text()
        included = set(re.findall(r"^#include <([a-z_]+)>", text, re.MULTILINE))
        for name in sorted(set(re.findall(r"\bstd::(\w+)", code_of(text)))):
            if name in OF_EVERY_RANGE and included & RANGES:
                continue
            header = HEADER_OF.get(name)
            where = file.relative_to(folder)
            if header is None:
                problems.append(
                    f"{where}: std::{name} is not in the table of {Path(__file__).name}: add it"
                )
            elif header not in included:
                problems.append(f"{where}: uses std::{name} and does not include <{header}>")
    print(
        "\n".join(problems)
        if problems
        else f"{len(files)} headers include what they use of the standard library"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
