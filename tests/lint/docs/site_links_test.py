"""The checker of links (tools/docs_links.py) finds each kind of wrong link, and the pages that the
site makes of the repository's files (tools/docs_pages.py) have the right links."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(SOURCE / "tools"))

import docs_go  # noqa: E402
import docs_pages  # noqa: E402

GUIDE = "[c](../../examples/c/x.c)\n[r](../../tests/t/README.md)\n[k](Error::kind)\n"


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


class Checker(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        write(
            self.root,
            {
                "README.md": "[a](docs/a.md) `[code](none.md)` [out](https://example.org/)\n",
                "docs/a.md": "# A\n\n[up](../README.md#tenon)\n",
                "allowed.txt": "# those that are right\nhttps://example.org/\n",
                "build/site/index.html": (
                    '<h1 id="top">T</h1><a href="a.html#x">a</a>'
                    '<a href="https://example.org/">out</a><a href="#top">top</a>'
                    '<img src="p.svg#only-dark" srcset="p.svg 1x, p.svg 2x">'
                    '<img src="data:image/png;,">'
                ),
                "build/site/a.html": '<p id="x"></p><a href="reference/c/c.html?q=1#f">c</a>',
                "build/site/p.svg": "<svg/>",
                # Pages that Doxygen wrote are not searched for links.
                "build/site/reference/c/c.html": '<a name="f"></a><a href="none.html"></a>',
            },
        )

    def check(self) -> tuple[int, str]:
        command = [
            sys.executable,
            "-B",
            str(SOURCE / "tools" / "docs_links.py"),
            "--root",
            str(self.root),
        ]
        command += ["--external", str(self.root / "allowed.txt")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    def test_right_links_pass(self) -> None:
        self.assertEqual(self.check(), (0, ""))

    def refuses(self, files: dict[str, str], said: str) -> None:
        write(self.root, files)
        code, text = self.check()
        self.assertEqual((code, text.strip()), (1, said))

    def test_a_page_that_is_missing(self) -> None:
        text = '<p id="x"><a href="b.html">'
        self.refuses({"build/site/a.html": text}, "a.html:1: there is no b.html")

    def test_a_folder_is_no_page(self) -> None:
        self.refuses(
            {"build/site/a.html": '<p id="x"><a href="reference/c">'},
            "a.html:1: there is no reference/c",
        )

    def test_an_id_that_is_missing(self) -> None:
        self.refuses({"build/site/a.html": '\n<p id="y">'}, "index.html:1: a.html has no id 'x'")

    def test_a_picture_that_is_missing(self) -> None:
        text = '<p id="x"><img srcset="p.svg 1x, q.svg 2x">\n<img src="q.svg">'
        self.refuses({"build/site/a.html": text}, "a.html:1 and 1 other places: there is no q.svg")

    def test_a_link_out_of_the_site(self) -> None:
        text = '<p id="x"><a href="../../README.md">'
        said = "a.html:1: '../../README.md' leads out of the site"
        self.refuses({"build/site/a.html": text}, said)

    def test_a_host_that_is_not_listed(self) -> None:
        text = '<p id="x"><script src="//example.com/x.js">'
        said = "a.html:1: '//example.com/x.js' is not in allowed.txt: add it if it is right"
        self.refuses({"build/site/a.html": text}, said)

    def test_a_line_of_the_list_that_no_page_has(self) -> None:
        text = "https://example.org/\nhttps://example.org/old\n"
        said = "allowed.txt: no page has 'https://example.org/old' any more: remove the line"
        self.refuses({"allowed.txt": text}, said)

    def test_a_markdown_file_that_the_site_does_not_show(self) -> None:
        text = "# T\n\n```\n[x](y.md)\n```\n\n[x](y.md)\n"
        said = "tests/t/README.md:7: 'y.md' leads to no file of the repository"
        self.refuses({"tests/t/README.md": text}, said)

    def test_a_site_without_pages(self) -> None:
        for name in ("index.html", "a.html"):
            (self.root / "build/site" / name).write_text("")
        self.assertEqual(self.check()[0], 2)


class Pages(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        write(
            self.root,
            {
                "README.md": (
                    "[g](docs/guides/g.md#a) [s](SECURITY.md) [e](examples)\n"
                    "[c](docs/reference/c/tenon_8h.html#x)\n"
                    '<picture><source media="(prefers-color-scheme: dark)" srcset="docs/d.svg">'
                    '<img src="docs/l.svg" alt="A"></picture>\n'
                ),
                "SECURITY.md": "# S\n",
                "docs/d.svg": "<svg/>",
                "docs/l.svg": "<svg/>",
                "docs/guides/g.md": GUIDE,
                "docs/guides/bad.md": "# Bad\n\n[n](none.md)\n",
                "docs/man/tenon.1": ".TH T 1\n",
                "examples/c/x.c": "/* ``` */\n",
                "examples/y.py": "",
                "examples/.style": "",
                "tests/t/README.md": "[x](case.json)\n",
                "tests/t/case.json": "{}",
                "tests/t/other.json": "{}",
            },
        )
        self.site = docs_pages.Site(docs_pages.Repository(self.root))
        self.site.collect()

    def rewritten(self, place: str, text: str | None = None) -> str:
        if text is None:
            text = self.site.pages[place]
        made = self.site.rewrite(place, text, lambda name: name)
        return docs_pages.pictures_that_switch(made)

    def test_a_missing_file_is_a_problem(self) -> None:
        said = "docs/guides/bad.md:3: the link 'none.md' leads to no file of the repository"
        self.assertEqual(self.site.problems, [said])

    def test_the_readme_is_the_first_page(self) -> None:
        text = self.rewritten("index.md")
        self.assertIn("[g](guides/g.md#a) [s](SECURITY.md) [e](files/examples/index.md)", text)
        self.assertIn("[c](reference/c/tenon_8h.html#x)", text)
        wanted = '<img src="l.svg#only-light" alt="A"><img src="d.svg#only-dark" alt="A">'
        self.assertIn(wanted, text)

    def test_files_get_pages(self) -> None:
        rust = "../reference/rust/tenon/index.html?search=Error%3A%3Akind"
        wanted = f"[c](../files/examples/c/x.c.md)\n[r](../files/tests/t/index.md)\n[k]({rust})\n"
        self.assertEqual(self.rewritten("guides/g.md", GUIDE), wanted)
        # The fence is longer than the one in the file, which therefore does not end the block.
        self.assertIn("````c\n/* ``` */\n````\n", self.site.pages["files/examples/c/x.c.md"])

    def test_folders_list_their_files(self) -> None:
        # All files of examples/ get pages.
        wanted = "- [`.style`](dot-style.md)\n- [`c/`](c/index.md)\n- [`y.py`](y.py.md)\n"
        self.assertIn(wanted, self.rewritten("files/examples/index.md"))
        # A folder's README comes first. Files with a page are links.
        wanted = "[x](case.json.md)\n\n## Files in this folder\n\n"
        wanted += "- `README.md`\n- [`case.json`](case.json.md)\n- `other.json`\n"
        self.assertEqual(self.rewritten("files/tests/t/index.md"), wanted)


class Go(unittest.TestCase):
    def test_declarations_become_headings(self) -> None:
        text = "package t // import\n\nPackage t has *T.\n\n# Part\n\n    code()\n\n"
        text += "CONSTANTS\n\nconst (\n\tA = 1\n\n\tB = 2\n)\n    About A.\n\n"
        text += "TYPES\n\ntype T struct {\n\tX int\n}\n    T is one.\n\n"
        text += "func (t *T) Close() error\n    Ends T.\n"
        made = docs_go.markdown_of(text)
        self.assertIn("Package t has \\*T.\n\n### Part\n\n    code()\n", made)
        wanted = "## Constants\n\n```go\nconst (\n\tA = 1\n\n\tB = 2\n)\n```\n\nAbout A.\n"
        self.assertIn(wanted, made)
        self.assertIn("### type T\n\n```go\ntype T struct {\n\tX int\n}\n```\n\nT is one.\n", made)
        self.assertIn("#### T.Close\n\n```go\nfunc (t *T) Close() error\n```\n\nEnds T.\n", made)


if __name__ == "__main__":
    unittest.main()
