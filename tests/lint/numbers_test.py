"""Compares each number that the documentation names with the place in the sources that decides it.

A claim is one number: the file that decides it, and every sentence that repeats it. A reworded
sentence fails here too, so that a claim never drops out of the table without notice. Sentences
about a run on one machine (timings, measured sizes) are no claims: they say when they were
measured.
"""

from __future__ import annotations

import json
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
WORDS = {
    word: str(number)
    for number, word in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight")
    )
}

# A file, and a regular expression whose groups are the number.
Place = tuple[str, str]


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def number(text: str) -> str:
    """Normalises a number of the documentation or the sources: "65,536", "10'000", "64 * 1024",
    "five", "3.11".
    """
    plain = WORDS.get(text.lower(), text.replace(",", "").replace("'", ""))
    product = re.fullmatch(r"(\d+)U? *(\*|<<) *(\d+)U?", plain)
    if product:
        left, sign, right = int(product[1]), product[2], int(product[3])
        return str(left * right if sign == "*" else left << right)
    return plain


def found(place: Place) -> set[str]:
    """The values that a place has. A file may say it more than once."""
    path, pattern = place
    text = read(path)
    if path.endswith(".md"):
        # A paragraph may be wrapped at any place.
        text = re.sub(r"(?<=\S)\n *(?=[^\s|#<`*-])", " ", text)
    matches = list(re.finditer(pattern, text, re.MULTILINE))
    if not matches:
        raise AssertionError(
            f"{path} has no text like {pattern!r}: was it reworded? tests/lint/numbers_test.py"
            " looks for it"
        )
    return {".".join(number(group) for group in match.groups()) for match in matches}


def constant(path: str, name: str) -> Place:
    return path, rf"constexpr \w+ {name} = (?:uint64_t\{{)?([\d'U* ]+(?:<< *\d+)?)"


def mebibytes(path: str, name: str) -> Place:
    return path, rf"constexpr uint64_t {name} = uint64_t\{{(\d+)\}} << 20"


VERSION: Place = ("CMakeLists.txt", r"project\(tenon VERSION ([\d.]+)")
DESCRIPTOR = "impl/tensor/descriptor_wire.h"
DEVICES = "impl/channel/device_block.cc"
PYTHON_MP = "wrappers/python/src/tenon/multiprocessing.py"


def size_of(path: str, struct: str) -> Place:
    return path, rf"sizeof\({struct}\) == (\d+)"


# The place that decides each number, and the places that repeat it.
CLAIMS: dict[str, tuple[Place, list[Place]]] = {
    "version": (
        VERSION,
        [
            ("CHANGELOG.md", r"\A# Changes\n(?:.*\n)*?## ([\d.]+)"),
            ("wrappers/rust/Cargo.toml", r'^version = "([\d.]+)"'),
        ],
    ),
    "version in short": (
        ("CMakeLists.txt", r"project\(tenon VERSION (\d+\.\d+)\."),
        [("README.md", r"\*\*Version (\d+\.\d+)\*\*:")],
    ),
    "oldest CMake": (
        ("CMakeLists.txt", r"cmake_minimum_required\(VERSION ([\d.]+)\)"),
        [
            ("wrappers/python/CMakeLists.txt", r"cmake_minimum_required\(VERSION ([\d.]+)\)"),
            ("wrappers/python/pyproject.toml", r'cmake\.version = ">=([\d.]+)"'),
            ("docs/dependencies.md", r"CMake ≥ ([\d.]+)"),
            ("wrappers/rust/libtenon/README.md", r"That takes CMake ([\d.]+),"),
        ],
    ),
    "C++ of the sources": (
        ("cmake/TenonTargets.cmake", r"CXX_STANDARD (\d+) CXX_STANDARD_REQUIRED"),
        [
            ("CONTRIBUTING.md", r"C\+\+(\d+) inside"),
            ("docs/languages.md", r"^\| C\+\+ .*\| C\+\+(\d+): gcc"),
            ("wrappers/cpp/README.md", r"header-only C\+\+(\d+) over"),
            ("wrappers/cpp/README.md", r"-std=c\+\+(\d+)"),
        ],
    ),
    "oldest clang": (
        ("tools/setup.sh", r"'\?clang-(\d+)'\) # the oldest that is promised"),
        [
            ("docs/languages.md", r"clang (\d+) \| `std"),
            ("docs/languages.md", r"^\| clang \| (\d+), the least"),
            ("docs/dependencies.md", r"^\| clang (\d+) \|"),
            ("CONTRIBUTING.md", r"with gcc \d+ and clang (\d+)"),
            ("wrappers/cpp/README.md", r"clang (\d+) or newer"),
        ],
    ),
    "oldest gcc": (
        ("docs/dependencies.md", r"g\+\+ ≥ (\d+)"),
        [
            ("docs/languages.md", r"C\+\+\d+: gcc (\d+)"),
            ("CONTRIBUTING.md", r"with gcc (\d+) and clang"),
            ("wrappers/cpp/README.md", r"gcc (\d+) or newer"),
        ],
    ),
    "oldest Python": (
        ("wrappers/python/pyproject.toml", r'requires-python = ">=([\d.]+)"'),
        [
            ("wrappers/python/pyproject.toml", r'python_version = "([\d.]+)"'),
            ("wrappers/python/pyproject.toml", r'wheel\.py-api = "cp(3)(\d+)"'),
            ("wrappers/python/CMakeLists.txt", r"find_package\(Python ([\d.]+) REQUIRED"),
            ("wrappers/python/README.md", r"one wheel for Python ([\d.]+) and later"),
            ("docs/languages.md", r"^\| Python .*\| (\d\.\d+) \| buffers"),
            ("ruff.toml", r'target-version = "py(3)(\d+)"'),
        ],
    ),
    "oldest Rust": (
        ("wrappers/rust/Cargo.toml", r'^rust-version = "([\d.]+)"'),
        [
            ("docs/languages.md", r"^\| Rust .*\| (\d\.\d+) \| `&"),
            ("docs/dependencies.md", r"Rust ≥ ([\d.]+) with"),
            ("wrappers/rust/README.md", r"docs, Rust ([\d.]+), bindings"),
            ("wrappers/rust/libtenon/README.md", r"Linux, Rust (\d+\.\d+)\."),
        ],
    ),
    "oldest Go": (
        ("wrappers/go/go.mod", r"^go ([\d.]+)"),
        [
            ("docs/languages.md", r"^\| Go .*\| (\d\.\d+) \| slices"),
            ("docs/dependencies.md", r"Go ≥ ([\d.]+)"),
            ("wrappers/go/README.md", r"Go ([\d.]+) or newer"),
        ],
    ),
    "oldest header of CUDA": (
        ("cmake/TenonDependencies.cmake", r"TENON_CUDA_OLDEST_HEADER (\d\d)0(\d)0\)"),
        [
            ("cmake/TenonDependencies.cmake", r"cudaTypedefs\.h \(([\d.]+) or newer\)"),
            ("docs/dependencies.md", r"`cudaTypedefs\.h`, ([\d.]+) or newer"),
        ],
    ),
    "oldest driver of CUDA": (
        ("impl/cuda/driver.h", r"kOldestDriver = (\d\d)0(\d)0;"),
        [
            ("docs/guides/cuda.md", r"a driver older than ([\d.]+),"),
            ("docs/internals/decisions.md", r"every driver since ([\d.]+) and"),
        ],
    ),
    "descriptor's version": (
        (DESCRIPTOR, r"uint16_t kMajor = (\d+);\ninline constexpr uint16_t kMinor = (\d+);"),
        [
            (DESCRIPTOR, r"structs, in versions 1\.0 and ([\d.]+)\. "),
            ("docs/format/descriptor.md", r"^# The descriptor, versions 1\.0 and ([\d.]+)$"),
        ],
    ),
    "descriptor's header": (
        size_of(DESCRIPTOR, "Header"),
        [("docs/format/descriptor.md", r"^### Header, 240 bytes; (\d+) in version 1\.1$")],
    ),
    "descriptor's section": (
        size_of(DESCRIPTOR, "Section"),
        [("docs/format/descriptor.md", r"^A section, (\d+) bytes:")],
    ),
    "descriptor's segment": (
        size_of(DESCRIPTOR, "Segment"),
        [("docs/format/descriptor.md", r"^### Segment, (\d+) bytes")],
    ),
    "descriptor's storage": (
        size_of(DESCRIPTOR, "Storage"),
        [("docs/format/descriptor.md", r"^### Storage, 24 bytes; (\d+) in version 1\.1$")],
    ),
    "descriptor's tensor": (
        size_of(DESCRIPTOR, "Tensor"),
        [("docs/format/descriptor.md", r"^### Tensor, (\d+) bytes")],
    ),
    "descriptor's composite": (
        size_of(DESCRIPTOR, "Composite"),
        [("docs/format/descriptor.md", r"^### Composite, (\d+) bytes")],
    ),
    "a device in a message": (
        size_of(DEVICES, "WireDevice"),
        [("docs/format/cuda.md", r"^A device, (\d+) bytes:")],
    ),
    "a device segment": (
        size_of(DEVICES, "WireSegment"),
        [("docs/format/cuda.md", r"^A device segment, (\d+) bytes:")],
    ),
    "frame's header": (
        constant("impl/channel/frames.cc", "kHeaderSize"),
        [("docs/format/frames.md", r"^A header of (\d+) bytes, then the payload")],
    ),
    "frame's payload": (
        constant("impl/channel/frames.h", "kMaxFramePayload"),
        [
            ("docs/format/frames.md", r"a payload of 0 to ([\d,]+) bytes"),
            ("docs/format/frames.md", r"bytes behind this header, at most ([\d,]+);"),
            ("docs/format/frames.md", r"would be the payload has more than ([\d,]+) bytes"),
        ],
    ),
    "frame's version": (
        constant("impl/channel/frames.cc", "kFrameVersion"),
        [("docs/format/frames.md", r"^\| 4 \| 2 \| version \| (\d+) \|")],
    ),
    "fds of a packet": (
        constant("impl/channel/frames.h", "kMaxFdsPerPacket"),
        [("docs/format/frames.md", r"fds that travel with this packet, at most (\d+)")],
    ),
    "counters of CUDA": (
        constant("impl/device/torch_counter.h", "kCudaCounters"),
        [("docs/format/cuda.md", r"the head of 64, and ([\d,]+) counters")],
    ),
    "head of a named file": (
        constant("impl/share/named_file_head.h", "kFilenameHeaderNbytes"),
        [
            ("docs/format/filename.md", r"a head of (\d+) bytes, then the payload"),
            ("docs/format/cuda.md", r"the head of (\d+), and"),
        ],
    ),
    "message to a manager": (
        constant("impl/names/manager_protocol.h", "kManagerMessageNbytes"),
        [
            ("docs/format/manager.md", r"The client sends (\d+) bytes:"),
            ("docs/format/manager.md", r"half a message costs (\d+) bytes"),
        ],
    ),
    "name for a manager": (
        constant("impl/names/manager_protocol.h", "kManagerNameMax"),
        [("docs/format/manager.md", r"with a NUL after it: (\d+) bytes at most")],
    ),
    "row of a board": (
        constant("impl/memory/board.h", "kRowNbytes"),
        [
            (
                "docs/format/board.md",
                r"^All numbers are little-endian\. The file has \(rows \+ 1\) . (\d+) bytes",
            )
        ],
    ),
    "rows of a board": (
        constant("impl/memory/board.h", "kRows"),
        [("docs/format/board.md", r"Tenon makes ([\d,]+) \|")],
    ),
    "slots of a lease page": (
        constant("impl/memory/lease_page.h", "kSlots"),
        [("docs/format/lease.md", r"Tenon makes ([\d,]+) and takes")],
    ),
    "slots that a reader takes": (
        constant("impl/memory/lease_page.h", "kMostSlots"),
        [("docs/format/lease.md", r"and takes up to ([\d,]+) \|")],
    ),
    "stored up to": (
        constant("impl/modules/archive/zip_writer.h", "kStoredUpTo"),
        [("docs/format/archive.md", r"is deflated if it has more than (\d+) bytes")],
    ),
    "segment of a default home, MiB": (
        mebibytes("impl/memory/arena.h", "kArenaSegmentNbytes"),
        [
            ("docs/concepts/glossary.md", r"as many segments of (\d+) MiB"),
            ("docs/architecture.md", r"The segment is a memfd of (\d+) MiB whose"),
            ("docs/internals/decisions.md", r"would leave (\d+) MiB segments half empty"),
        ],
    ),
    "largest block of a default home, MiB": (
        mebibytes("impl/memory/arena.h", "kArenaBlockMax"),
        [
            (
                "docs/internals/decisions.md",
                r"^## [\d-]+ Blocks over (\d+) MiB have a segment of their own",
            ),
            ("docs/concepts/who_may_write.md", r"^Storages over (\d+) MiB in a default home"),
        ],
    ),
    "dimensions": (
        ("capi/include/tenon/tensor.h", r"TENON_TENSOR_MAX_NDIM = (\d+)"),
        [("capi/include/tenon/dtype.h", r"@param\[in\]  ndim   0 to (\d+)\.")],
    ),
    "seconds of a keeper": (
        (PYTHON_MP, r"^_keep_seconds = (\d+)\.0"),
        [
            (PYTHON_MP, r"how long a keeper stays behind \((\d+)\)"),
            ("docs/guides/queues.md", r"^\| `keep_seconds` .*\| (\d+) \|"),
        ],
    ),
    "seconds of a fetch": (
        (PYTHON_MP, r"^_fetch_seconds = (\d+)\.0"),
        [
            (PYTHON_MP, r"a sender that does not answer \((\d+)\)"),
            ("docs/guides/queues.md", r"^\| `fetch_seconds` .*\| (\d+) \|"),
        ],
    ),
}

# The documentation announces the sizes of a format's structs in these forms. Each such line must be
# a claim.
ANNOUNCED = re.compile(
    r"^(?:###? \w[\w ]*, \d+ bytes|A [\w ]+, \d+ bytes:.*|A header of \d+ bytes.*)$", re.MULTILINE
)


class Numbers(unittest.TestCase):
    def test_claims(self) -> None:
        for name, (truth, claims) in CLAIMS.items():
            with self.subTest(name):
                values = found(truth)
                self.assertEqual(len(values), 1, f"{truth[0]} decides {name} in two ways: {values}")
                for claim in claims:
                    self.assertEqual(
                        found(claim), values, f"{name}: {claim[0]} says otherwise than {truth[0]}"
                    )

    def test_languages(self) -> None:
        wrappers = [path.name for path in (ROOT / "wrappers").iterdir() if path.is_dir()]
        self.assertEqual(found(("README.md", r"in all (\w+) languages")), {str(len(wrappers) + 1)})

    def test_presets_of_a_whole_run(self) -> None:
        presets = {
            preset["name"]
            for preset in json.loads(read("CMakePresets.json"))["testPresets"]
            if not preset.get("hidden")
        }
        # tools/test runs dev and the sanitizers that its help names.
        (sanitizers,) = re.findall(
            r"--sanitizers +also the presets (\w+) and (\w+);", read("tools/test")
        )
        self.assertLessEqual({"dev", *sanitizers}, presets)
        self.assertEqual(
            found(("docs/internals/build_and_tests.md", r"builds (\w+) presets")),
            {str(1 + len(sanitizers))},
        )

    def test_every_announced_size_is_a_claim(self) -> None:
        patterns = [
            (path, re.compile(pattern, re.MULTILINE))
            for _, claims in CLAIMS.values()
            for path, pattern in claims
        ]
        for path in sorted((ROOT / "docs" / "format").glob("*.md")):
            name = str(path.relative_to(ROOT))
            for announced in ANNOUNCED.finditer(path.read_text(encoding="utf-8")):
                known = any(
                    claim == name and pattern.search(announced[0]) for claim, pattern in patterns
                )
                self.assertTrue(
                    known, f"{name} announces {announced[0]!r}, and CLAIMS has no such claim"
                )

    def test_can_fail(self) -> None:
        self.assertEqual(
            [
                number(text)
                for text in ("65,536", "10'000", "64 * 1024", "4U << 20", "Five", "3.11")
            ],
            ["65536", "10000", "65536", "4194304", "5", "3.11"],
        )
        with self.assertRaises(AssertionError):
            found(("README.md", r"there is no such sentence (\d+)"))


if __name__ == "__main__":
    unittest.main()
