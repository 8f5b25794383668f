"""Plants one violation at a time and expects the lint to name it, and only it.

The lints are tools/lint_{layers,headers,pages,tidy,width}.py, and `format`, `shell` and `python`
of tools/lint.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parent.parent.parent / "tools"


def run(script: str, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-B", str(TOOLS / script), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


class Planted(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)


class Pages(Planted):
    ANNOUNCED = "<!-- file: one.c -->\n```c\nint x;\n```\n"

    def lint(self, text: str, page: str = "README.md") -> tuple[int, str]:
        self.write("one.c", "int x;\n")
        self.write("two.go", "func f() {\n\tif y {\n\t\tx := 1\n\n\t\ty = 2\n\t}\n}\n")
        self.write(page, text)
        return run("lint_pages.py", "--root", str(self.root))

    def test_clean(self) -> None:
        wide = "word " * 30
        for page, text in [
            ("README.md", "# Title\n\n" + self.ANNOUNCED + "\n```sh\nls\n```\n"),
            ("README.md", "<!-- part of: two.go -->\n```go\nif y {\n\tx := 1\n\n\ty = 2\n```\n"),
            ("README.md", "a line\n" * 150),
            ("docs/format/frames.md", "```go\nx := 1\n```\n"),
            (
                "docs/guides/queues.md",
                f"| {wide} |\n\n- [link](" + "x" * 100 + ")\n" + "y" * 100 + "\n",
            ),
        ]:
            with self.subTest(text[:40]):
                self.assertEqual(self.lint(text, page), (0, ""))

    def test_a_copied_block_may_be_wide(self) -> None:
        line = "int " + "x" * 90 + " = 12345;"
        self.write("wide.c", line + "\n")
        self.assertEqual(self.lint(f"<!-- file: wide.c -->\n```c\n{line}\n```\n"), (0, ""))

    def test_violations(self) -> None:
        for text, words in [
            (self.ANNOUNCED.replace("int x", "int y"), "README.md:2: the block differs from one.c"),
            (self.ANNOUNCED.replace("one.c", "two.c"), "two.c does not exist"),
            ("```c\nint x;\n```\n", "does not say which file it is"),
            (
                self.ANNOUNCED.replace("-->\n", "-->\nProse between.\n"),
                "does not say which file it is",
            ),
            (
                "<!-- part of: two.go -->\n```go\nx := 1\nx = 2\n```\n",
                "the block is no part of two.go",
            ),
            ("<!-- part of: two.go -->\n```go\n```\n", "the block is no part of two.go"),
            ("<!-- file: two.go -->\n```go\nif y {\n```\n", "the block differs from two.go"),
            ("a line\n" * 151, "README.md: 151 lines, and 150 are allowed"),
            ("short\n\n" + "word " * 20 + "1\n", "README.md:3: 101 columns, and 100 are allowed"),
            (
                self.ANNOUNCED + "word " * 20 + "1\n",
                "README.md:5: 101 columns, and 100 are allowed",
            ),
            (
                "```console\n$ " + "word " * 20 + "\n```\n",
                "README.md:2: 102 columns, and 100 are allowed",
            ),
        ]:
            with self.subTest(words):
                rc, out = self.lint(text)
                self.assertEqual(rc, 1)
                self.assertIn(words, out)
                self.assertEqual(out.count("\n"), 1)


class Width(Planted):
    WIDE = "word " * 20 + "1\n"

    def lint(self, path: str, text: str) -> tuple[int, str]:
        self.write("short.cc", "int x;\n")
        self.write(path, text)
        return run("lint_width.py", "--root", str(self.root))

    def test_clean(self) -> None:
        for path, text in [
            ("page.md", self.WIDE),
            ("tests/peers/golden/rows.txt", self.WIDE),
            ("one.cc", "// " + "x" * 95 + "é\n"),
            ("one.cc", "x" * 200 + "\n"),
            ("one.py", "x" * 70 + "  # type: ignore[attr-defined]\n"),
        ]:
            with self.subTest(path):
                self.assertEqual(self.lint(path, text), (0, ""))

    def test_violations(self) -> None:
        for path, text, columns in [
            ("capi/include/tenon/wait.h", "/* " + "x" * 100 + " */\n", 106),
            ("one.go", "\t" + self.WIDE, 105),
            ("cmake/One.cmake", self.WIDE, 101),
            ("tools/one", "#!/bin/sh " + self.WIDE, 111),
        ]:
            with self.subTest(path):
                wanted = f"{path}:1: {columns} columns, and 100 are allowed\n"
                self.assertEqual(self.lint(path, text), (1, wanted))
                (self.root / path).unlink()


class LocalNames(Planted):
    def lint(self) -> tuple[int, str]:
        return run("lint_local_names.py", "--root", str(self.root))

    def test_finds_a_name_of_two_files(self) -> None:
        text = (
            "namespace tenon {\nnamespace {\n\n%s\n\n}  // namespace\n\nint shown(int x) { return"
            " x; }\n}\n"
        )
        self.write("impl/os/one.cc", text % "Status refused(int error) { return {}; }")
        for line in [
            "Status refused(const char* why) { return {}; }",
            "constexpr int refused = 1;",
            "const bool refused = [] {",
            "struct refused {",
            "std::map<int, std::string>& refused() {",
        ]:
            with self.subTest(line):
                self.write("impl/os/two.cc", text % line)
                rc, out = self.lint()
                self.assertEqual(rc, 1, out)
                self.assertIn("impl/os/one.cc:4, impl/os/two.cc:4: the name refused is local", out)
        self.write("impl/os/two.cc", text % "Status denied(int error) { return refused(error); }")
        self.write("impl/memory/three.cc", text % "Status refused(int error) { return {}; }")
        self.assertEqual(self.lint(), (0, ""))

    def test_finds_a_name_of_two_tests(self) -> None:
        text = (
            "namespace tenon {\nnamespace {\n\n%s\n\nTEST(Fd, IsOne) { EXPECT_TRUE(true); }\n\n} "
            " // namespace\n}\n"
        )
        for folder in ["process/lease", "unit/os", "process/cuda/storm"]:
            with self.subTest(folder):
                one, two, kit = (
                    f"tests/{folder}/{name}" for name in ("one_test.cc", "two_test.cc", "kit.h")
                )
                self.write(one, text % "constexpr int kHeader = 16;")
                self.write(two, text % "constexpr int kSegment = 16;")
                self.write(kit, "namespace tenon {\ninline constexpr int kLength = 32;\n}\n")
                self.assertEqual(self.lint(), (0, ""))
                self.write(two, text % "constexpr int kHeader = 32;")
                self.assertEqual(self.lint()[0], 1)
                self.write(two, text % "constexpr int kLength = 16;")
                rc, out = self.lint()
                self.assertEqual(rc, 1)
                self.assertIn(f"{two}:4, {kit}:2: the name kLength is local", out)
                (self.root / two).unlink()


class Layers(Planted):
    def setUp(self) -> None:
        super().setUp()
        self.write(
            "impl/LAYERS",
            "# folders\nbase:\nos: base\ncuda: base\nmemory: os\nmodules/value: base\n",
        )
        self.write("impl/base/status.h", "#pragma once\n#include <memory>\n#include <string>\n")
        self.write(
            "impl/os/fd.h", '#pragma once\n#include "base/status.h"\n#include <sys/mman.h>\n'
        )
        self.write("impl/memory/arena.cc", '#include "memory/arena.h"\n#include "os/fd.h"\n')
        self.write("impl/memory/arena.h", "#pragma once\n")
        self.write("impl/modules/value/value.h", '#pragma once\n#include "base/status.h"\n')
        self.write("impl/cuda/driver.h", '#pragma once\n#include "base/status.h"\n')
        self.write("capi/src/boundary.h", '#include "memory/arena.h"\n#include <tenon/tenon.h>\n')

    def lint(self) -> tuple[int, str]:
        return run("lint_layers.py", "--root", str(self.root))

    def test_clean(self) -> None:
        self.assertEqual(self.lint(), (0, ""))

    def test_violations(self) -> None:
        for path, line, words in [
            ("impl/base/up.h", '#include "os/fd.h"', "base may not include os"),
            ("impl/os/up.cc", '  #  include "memory/arena.h"', "os may not include memory"),
            (
                "impl/memory/public.cc",
                "#include <tenon/storage.h>",
                "does not know its C interface",
            ),
            ("impl/memory/boundary.cc", '#include "boundary.h"', "does not know its C interface"),
            (
                "impl/memory/capi.cc",
                '#include "capi/src/boundary.h"',
                "does not know its C interface",
            ),
            ("impl/memory/dots.cc", '#include "../os/fd.h"', "includes start at impl/"),
            ("impl/memory/near.cc", '#include "arena.h"', "names no folder"),
            ("impl/memory/angle.cc", "#include <os/fd.h>", "included with quotes"),
            ("impl/extra/new.cc", "", "not in impl/LAYERS"),
            ("impl/loose.cc", "", "sources live in a folder that"),
            ("impl/modules/loose.cc", "", "sources live in a folder that"),
            (
                "impl/os/wing.cc",
                '#include "modules/value/value.h"',
                "may not include modules/value",
            ),
            ("impl/os/own.h", '#include "os/own.h"', "the file includes itself"),
            ("impl/memory/aside.cc", '#include "cuda/driver.h"', "memory may not include cuda"),
        ]:
            with self.subTest(path):
                self.write(path, f"#include <vector>\n{line}\n")
                rc, out = self.lint()
                (self.root / path).unlink()
                if path.startswith("impl/extra"):
                    (self.root / "impl/extra").rmdir()
                self.assertEqual(rc, 1)
                self.assertEqual(len(out.splitlines()), 1, out)
                self.assertIn(words, out)

    def test_layers_without_an_order(self) -> None:
        for lines, words in [
            ("os: base\nbase:\n", "os names base, which has no line above it"),
            ("base: os\nos: base\n", "base names os, which has no line above it"),
            ("base:\nos: base\nos:\n", "os has two lines"),
            ("base:\nos\n", "the colon is missing"),
            ("base:\nos: base\nshare: os\n", "share includes nothing of os"),
        ]:
            with self.subTest(lines):
                self.write("impl/LAYERS", lines + "cuda: base\nmemory: os\nmodules/value: base\n")
                rc, out = self.lint()
                self.assertEqual(rc, 1)
                self.assertIn(words, out)

    def test_an_old_picture(self) -> None:
        page = "docs/internals/map.md"
        begin, end = "<!-- from impl/LAYERS: tools/lint_layers.py --update -->", "<!-- end -->"
        self.write(page, f"# Map\n\n{begin}\n\n    nothing\n\n{end}\n\nmore\n")
        rc, out = self.lint()
        self.assertEqual(rc, 1)
        self.assertIn("the picture of impl/LAYERS is old", out)
        run("lint_layers.py", "--root", str(self.root), "--update")
        self.assertEqual(self.lint(), (0, ""))
        text = (self.root / page).read_text()
        self.assertIn("     2  memory        -> os\n", text)
        self.assertTrue(text.endswith("more\n"))

    def test_the_driver_of_cuda(self) -> None:
        include = "#include <cuda.h>"
        for path, line, refused in [
            ("impl/os/driver.cc", 'open("libcuda.so.1")', True),
            ("impl/os/driver.cc", "#include <cudaTypedefs.h>", True),
            ("impl/os/driver.cc", "void* h = dlopen (name, 2);", True),
            ("capi/src/by_cuda.cc", include, True),
            ("cli/doctor_cuda.cc", include, True),
            ("wrappers/go/by_cuda.go", "// " + include, True),
            ("wrappers/python/tests/test_by_cuda.py", include, False),
            ("tests/process/cuda/driver_test.cc", include, False),
            ("capi/src/by_cuda.cc", "#include <tenon/by_cuda.h>", False),
        ]:
            with self.subTest(path, line=line):
                self.write(path, line + "\n")
                rc, out = self.lint()
                (self.root / path).unlink()
                self.assertEqual((rc, len(out.splitlines())), (int(refused), int(refused)), out)
                self.assertIn("impl/cuda" if refused else "", out)


GOOD = """
/**
 * Make a thing of `nbytes` bytes.
 * @param[in]  name    borrowed; NULL is allowed.
 * @param[in]  nbytes  bytes.
 * @param[in]  done    called once with `context`.
 * @param[in]  context handed to `done`.
 * @param[out] out     new reference, release it with
 *                     tenon_thing_release.
 * @param[out] err     optional, see rule 2 in tenon.h.
 * @return TENON_OK, TENON_INVALID_ARGUMENT.
 * @since 0.1. Any thread.
 */
TENON_API tenon_status tenon_thing_new(const char *name, uint64_t nbytes,
                                       void (*done)(void *context, int why), void *context,
                                       tenon_thing **out, tenon_error **err) TENON_NOEXCEPT;
"""


class Headers(Planted):
    def lint(self, text: str) -> tuple[int, str]:
        self.write("include/thing.h", text)
        return run("lint_headers.py", "--headers", str(self.root / "include"))

    def test_clean(self) -> None:
        self.assertEqual(self.lint(GOOD), (0, "1 functions, 0 problems\n"))

    def test_an_empty_header_is_no_success(self) -> None:
        self.assertEqual(self.lint("int x;\n")[0], 1)

    def test_violations(self) -> None:
        for old, new, words in [
            (" * Make a thing of `nbytes` bytes.\n", "", "does not say what it does"),
            (" * @param[in]  nbytes  bytes.\n", "", "@param lines are"),
            ("@param[in]  nbytes  bytes", "@param[in]  size  bytes", "@param lines are"),
            ("@param[in]  nbytes", "@param nbytes", "cannot read"),
            ("new reference, release it with", "the thing, see", "whose the pointer is"),
            ("borrowed; NULL is allowed", "a name", "whose the pointer is"),
            ("@param[out] out", "@param[in] out", "is an output"),
            ("@param[in]  nbytes", "@param[out] nbytes", "can only be [in]"),
            ("@param[in]  name", "@param[out] name", "points to const"),
            (" * @return TENON_OK, TENON_INVALID_ARGUMENT.\n", "", "has no @return"),
            (" * @since 0.1. Any thread.\n", "", "has no @since"),
            (" */\nTENON_API", " */\n\nTENON_API", "no comment directly above"),
            ("TENON_API tenon_status", "TENON_API void", "returns nothing, but has @return"),
            (", tenon_error **err)", ")", "takes no tenon_error"),
        ]:
            with self.subTest(words):
                self.assertIn(old, GOOD)
                rc, out = self.lint(GOOD.replace(old, new))
                self.assertEqual(rc, 1, out)
                self.assertIn(words, out)


class Tidy(Planted):
    """Sources in unity files. The first two targets have the same options."""

    CLEAN = (
        '#include "thing.h"\nnamespace { int %s() { return kThing; } }\nint use_%s() { return'
        " %s(); }\n"
    )
    DEFECT = "int both_%s(bool a) { return (a && a) ? 1 : 0; }\n"

    def setUp(self) -> None:
        super().setUp()
        self.tool = shutil.which("clang-tidy-19") or shutil.which("clang-tidy")
        if self.tool is None:
            self.skipTest("no clang-tidy: tools/setup.sh installs it")
        self.write(".clang-tidy", (TOOLS.parent / ".clang-tidy").read_text())
        self.write("impl/thing.h", "#pragma once\nconstexpr int kThing = 1;\n")
        for name in ("one", "two", "three", "alone"):
            self.write(f"impl/{name}.cc", self.CLEAN % (name, name, name))
        entries = []
        # Only the last of these targets has a different option.
        for target, names in (
            ("first", ("one", "two")),
            ("second", ("three",)),
            ("other", ("alone",)),
        ):
            file = f"build/CMakeFiles/{target}.dir/Unity/unity_{len(entries)}_cxx.cxx"
            self.write(
                file, "".join(f'#include "{self.root}/impl/{name}.cc"\n\n' for name in names)
            )
            # clang-tidy cannot read gcc's precompiled header, which does not exist here.
            header = (
                "-fpch-preprocess -std=c++20 -Winvalid-pch -include"
                f" {self.root}/build/cmake_pch.hxx"
            )
            define = " -DOTHER" if target == "other" else ""
            command = (
                f"c++{define} {header} -o CMakeFiles/{target}.dir/unity_{len(entries)}.o -c"
                f" {self.root}/{file}"
            )
            entries.append(
                {"directory": str(self.root), "file": f"{self.root}/{file}", "command": command}
            )
        self.write("build/compile_commands.json", json.dumps(entries))

    def lint(self) -> tuple[int, str]:
        build = str(self.root / "build")
        return run(
            "lint_tidy.py",
            "--root",
            str(self.root),
            "--tool",
            str(self.tool),
            "--build",
            build,
            "--name",
            "tidy",
        )

    def test_clean_files_are_not_looked_at_again(self) -> None:
        self.assertEqual(self.lint(), (0, "4 files to look at, in 2 units\n"))
        self.assertEqual(self.lint(), (0, "0 files to look at, in 0 units\n"))
        self.write("impl/two.cc", self.CLEAN % ("other", "other", "other"))
        self.assertEqual(self.lint(), (0, "3 files to look at, in 1 units\n"))
        self.write("impl/thing.h", "#pragma once\nconstexpr int kThing = 2;\n")
        self.assertEqual(self.lint(), (0, "4 files to look at, in 2 units\n"))

    def test_violations(self) -> None:
        self.assertEqual(self.lint()[0], 0)
        for path in ("impl/two.cc", "impl/alone.cc", "impl/thing.h"):
            with self.subTest(path):
                old = (self.root / path).read_text()
                self.write(path, old + "inline " * path.endswith(".h") + self.DEFECT % "sides")
                rc, out = self.lint()
                self.write(path, old)
                self.assertEqual(rc, 1, out)
                self.assertIn(f"{self.root}/{path}", out)
                self.assertIn("misc-redundant-expression", out)
                self.assertNotIn("bugprone-suspicious-include", out)


class Tree(Planted):
    """tools/lint itself, in a tree with one file of each kind."""

    def setUp(self) -> None:
        super().setUp()
        for name in ("tools/lint", ".clang-format", ".shellcheckrc", "ruff.toml"):
            self.write(name, (TOOLS.parent / name).read_text())
        (self.root / "tools/lint").chmod(0o755)
        for number in range(3):
            self.write(f"impl/file_{number}.cc", f"int x_{number};\n")
            self.write(f"tests/script_{number}", "#!/usr/bin/env bash\necho hello\n")
            self.write(f"tests/program_{number}", '#!/usr/bin/env python3\nprint("hello")\n')

    def lint(self, name: str) -> tuple[int, str]:
        path = f"{TOOLS.parent}/build/venv/bin:{os.environ['PATH']}"
        command = [str(self.root / "tools/lint"), name]
        done = subprocess.run(
            command, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    def test_violations(self) -> None:
        for name, tools, path, text, words in [
            (
                "format",
                ("clang-format-19",),
                "impl/file_1.cc",
                "int  x;\nint y ;\n",
                "impl/file_1.cc: 2 lines differ from .clang-format",
            ),
            ("shell", ("shellcheck",), "tests/script_1", "#!/bin/sh\nls $1\n", "SC2086"),
            ("shell", ("shellcheck",), "tests/other.sh", "#!/bin/sh\nls $1\n", "SC2086"),
            ("python", ("ruff",), "tests/program_1", "#!/usr/bin/env python3\nimport os\n", "F401"),
            ("python", ("ruff",), "tests/other.py", 'x = {"a":1}\n', "1 file would be reformatted"),
        ]:
            venv = str(TOOLS.parent / "build/venv/bin")
            if not all(shutil.which(tool) or shutil.which(tool, path=venv) for tool in tools):
                continue
            with self.subTest(name, path=path):
                self.assertEqual(self.lint(name)[0], 0)
                file = self.root / path
                old = file.read_text() if file.exists() else ""
                self.write(path, text)
                rc, out = self.lint(name)
                self.assertNotEqual(rc, 0)
                self.assertIn(words, out)
                self.assertIn(path, out)
                if old:
                    self.write(path, old)
                else:
                    file.unlink()


if __name__ == "__main__":
    unittest.main()
