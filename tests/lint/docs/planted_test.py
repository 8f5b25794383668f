"""Plants one fault at a time in a page and expects snippets_test.py to name it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

RUNNER = Path(__file__).resolve().parent / "snippets_test.py"
GOOD = """# A page

<!-- not run here: the.install runs it -->
```console
$ make install
```

<!-- file: examples/hello.sh -->
```sh
echo "hello $1"
```

<!-- run -->
```console
$ sh hello.sh world
hello world
$ test -t 1
```
"""


class Planted(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("examples/hello.sh", 'echo "hello $1"\n')
        self.write("build/CTestTestfile.cmake", 'add_test(the.install "true")\n')

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def run_page(self, text: str, *options: str) -> tuple[int, str]:
        self.write("page.md", text)
        command = [sys.executable, "-B", str(RUNNER), "--root", str(self.root), *options]
        done = subprocess.run(
            [*command, str(self.root / "page.md")],
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "TENON_BUILD_DIR": str(self.root / "build")},
        )
        return done.returncode, done.stdout

    def passes(self, text: str, *options: str) -> str:
        status, output = self.run_page(text, *options)
        self.assertEqual(status, 0, output)
        return output

    def fails(self, words: str, text: str, *options: str) -> None:
        status, output = self.run_page(text, *options)
        self.assertEqual(status, 1, output)
        self.assertIn(words, output)

    def console(self, lines: str, notes: str = "<!-- run -->") -> str:
        return f"{notes}\n```console\n{lines}\n```\n"

    def test_a_good_page(self) -> None:
        output = self.passes(GOOD, "--every-block")
        self.assertIn("page.md: 2 commands print what the page shows", output)

    def test_a_wrong_output(self) -> None:
        self.fails("+hello world", GOOD.replace("\nhello world", "\nhello you"))
        self.fails("+hello world", GOOD.replace("\nhello world", ""))
        self.fails("-more", GOOD.replace("\nhello world", "\nhello world\nmore"))

    def test_a_command_that_fails(self) -> None:
        self.fails("ends with 1, not with 0", self.console("$ false"))
        self.fails("ends with 0, not with 1", self.console("$ true", "<!-- run: exit 1 -->"))
        self.passes(self.console("$ true\n$ false", "<!-- run: exit 1 -->"))
        self.fails("did not end in time", self.console("$ sleep 60"), "--timeout", "0.5")
        self.fails("did not end in time", self.console("$ exit 0"))
        self.fails("did not end in time", self.console("$ echo 'hello"))

    def test_a_file_that_is_missing(self) -> None:
        self.fails("examples/bye.sh does not exist", GOOD.replace("hello.sh -->", "bye.sh -->"))
        early = self.console("$ sh hello.sh you\nhello you") + GOOD
        self.fails("ends with 2, not with 0", early)

    def test_a_file_that_is_not_announced(self) -> None:
        unannounced = GOOD + "```c\nint x;\n```\n"
        self.passes(unannounced)
        self.fails("a block of c that names no file", unannounced, "--every-block")
        self.fails("No such file", GOOD.replace("<!-- file: examples/hello.sh -->", ""))
        self.fails("No such file", GOOD.replace("hello.sh -->", "hello.sh -->\n\nProse."))

    def test_the_name_of_a_file(self) -> None:
        named = GOOD.replace("hello.sh -->", "hello.sh as src/a.sh -->")
        self.passes(named.replace("sh hello.sh", "sh src/a.sh"))
        self.fails("No such file", named)
        # The reader gets the whole file even if the block shows only a part of it.
        part = GOOD.replace("file:", "part of:").replace('echo "hello $1"', "# nothing")
        self.passes(part)

    def test_a_block_that_nobody_runs(self) -> None:
        silent = GOOD + self.console("$ false", "")
        self.passes(silent)
        self.fails("says neither `run` nor", silent, "--every-block")
        self.fails("says neither `run` nor", GOOD.replace("<!-- run -->", "<!-- runs -->"))
        self.fails("there is no test the.other", GOOD.replace("the.install", "the.other"))
        self.fails("no command of this page is run", "# A page\n", "--every-block")
        self.fails("does not begin with a command", self.console("hello"))

    def test_output_that_varies(self) -> None:
        command = '$ echo "one"; echo "pid $$ is mine"; echo "three"\n'
        varies = "<!-- varies: pid \\d+ -->\n<!-- run -->"
        shown = "one\npid 7 is mine\nthree"
        self.fails("-pid 7 is mine", self.console(command + shown))
        self.passes(self.console(command + shown, varies))
        self.passes(self.console(command + shown.replace("7", "...")))
        self.passes(self.console(command + "one\n..."))
        self.passes(self.console(command + "...\nthree"))
        self.fails("-four", self.console(command + "...\nfour"))
        self.fails("+(varies) is mine", self.console(command + "one\nthree", varies))

    def test_a_condition(self) -> None:
        block = self.console("$ false", "<!-- run if: test -e hello.sh -->")
        self.assertIn("is left out: test -e hello.sh fails here", self.passes(block))
        self.fails("ends with 1, not with 0", GOOD + block)

    def test_commands_share_a_shell(self) -> None:
        text = self.console("$ mkdir new && cd new\n$ word=me") + GOOD
        self.passes(text.replace("world", "$word", 1).replace("hello world", "hello me"))
        self.passes(self.console("$ for word in a b; do\n>   echo $word\n> done\na\nb"))


if __name__ == "__main__":
    unittest.main()
