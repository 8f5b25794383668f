"""What the site shows: the pages of docs/, the README, and each file or folder that they link to.

tools/docs_hooks.py calls this module while MkDocs builds the site. A page of the repository links
to other files by relative paths, as a reader of the repository follows them. On the site a file
outside docs/ gets a page of its own: a Markdown file is rendered, a source file is highlighted, and
a folder shows its README and a list of its files. A link that leads to no file of the repository is
a problem, and a problem fails the build.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
# References that other tools write as HTML, and the pages of each that others link to. tools/docs
# puts each reference into a folder of this name.
FIRST_PAGES = {
    "c": ("index.html", "tenon_8h.html"),
    "cpp": ("index.html", "tenon_8hpp.html"),
    "rust": ("index.html", "tenon/index.html"),
}
IMAGES = (".svg", ".png", ".jpg", ".gif", ".ico")
READ_WHOLE = "examples"  # every file of this folder gets a page
LARGEST = 200_000  # a file with more bytes is not shown
LANGUAGES = {
    ".c": "c",
    ".h": "c",
    ".in": "c",
    ".cc": "cpp",
    ".hpp": "cpp",
    ".py": "python",
    ".pyi": "python",
    ".rs": "rust",
    ".go": "go",
    ".sh": "bash",
    ".cmake": "cmake",
    ".js": "js",
    ".json": "json",
    ".toml": "toml",
    ".yml": "yaml",
    ".pml": "c",
}

# The form of a Rust name in a README that rustdoc includes.
RUST_NAME = re.compile(r"\w+(?:::\w+)+")
EXTERNAL = re.compile(r"(?:[a-zA-Z][a-zA-Z0-9+.-]*:|//)")
CODE_FENCE = re.compile(r"^ *(`{3,}|~{3,})")
# The three forms of a link: [text](target), [name]: target, and an attribute of a tag.
INLINE_LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
REFERENCE_LINK = re.compile(r"^ {0,3}\[[^\]^]+\]:\s*<?([^\s>]+)", re.M)
TAG = re.compile(r"<(?:a|img|source)\b[^>]*>", re.S)
ATTRIBUTE = re.compile(r"\b(?:href|src|srcset)=\"([^\"]*)\"")


def is_external(target: str) -> bool:
    return EXTERNAL.match(target) is not None and not is_rust_name(target)


def is_rust_name(target: str) -> bool:
    return RUST_NAME.fullmatch(target) is not None


def without_code(text: str) -> str:
    """Replace every character of code blocks and code spans, so that positions in the text stay."""
    lines = text.splitlines(keepends=True)
    fence = ""
    for at, line in enumerate(lines):
        found = CODE_FENCE.match(line)
        blank = re.sub(r"[^\n]", "x", line)
        if fence:
            if found and found[1].startswith(fence) and line.strip() == found[1]:
                fence = ""
            lines[at] = blank
        elif found:
            fence = found[1]
            lines[at] = blank
    text = "".join(lines)
    text = re.sub(r"<!--.*?-->", lambda each: re.sub(r"[^\n]", "x", each[0]), text, flags=re.S)
    span = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.S)
    return span.sub(lambda each: re.sub(r"[^\n]", "x", each[0]), text)


@dataclass(frozen=True)
class Link:
    start: int
    end: int
    target: str
    html: bool  # in a tag, which MkDocs does not rewrite


def links_of(text: str) -> list[Link]:
    masked = without_code(text)
    found = [Link(*each.span(1), each[1], html=False) for each in INLINE_LINK.finditer(masked)]
    found += [Link(*each.span(1), each[1], html=False) for each in REFERENCE_LINK.finditer(masked)]
    for tag in TAG.finditer(masked):
        for each in ATTRIBUTE.finditer(tag[0]):
            # A srcset has several addresses, each with its width.
            for part in re.finditer(r"(?:^|,)\s*([^\s,]+)", each[1]):
                start = tag.start() + each.start(1) + part.start(1)
                found.append(Link(start, start + len(part[1]), part[1], html=True))
    return sorted(found, key=lambda link: link.start)


PICTURE = re.compile(
    r"<picture>\s*<source media=\"\(prefers-color-scheme: dark\)\" srcset=\"([^\"\s]+)\">"
    r"\s*<img src=\"([^\"\s]+)\"([^>]*)>\s*</picture>"
)


def pictures_that_switch(text: str) -> str:
    """A <picture> follows the system's colours. The site has a switch, so it gets two images. Their
    fragments tell the theme which of them to show.
    """
    pair = r'<img src="\2#only-light"\3><img src="\1#only-dark"\3>'
    return PICTURE.sub(pair, text)


def line_of(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def replaced(text: str, of: Callable[[Link], str]) -> str:
    """Replace the target of each link by the result of `of` for the link."""
    pieces, at = [], 0
    for link in links_of(text):
        pieces += [text[at : link.start], of(link)]
        at = link.end
    return "".join([*pieces, text[at:]])


def names_in(root: Path) -> set[str]:
    """The files that git knows or would add. If git is missing: all files but those of build/."""
    if (root / ".git").exists():
        command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others"]
        command.append("--exclude-standard")
        listed = subprocess.run(command, capture_output=True, check=False)
        if listed.returncode == 0:
            return {each for each in os.fsdecode(listed.stdout).split("\0") if each}
    paths = (each.relative_to(root) for each in root.rglob("*") if each.is_file())
    return {each.as_posix() for each in paths if each.parts[0] not in ("build", ".git")}


class Repository:
    """The files and folders of the repository, by their paths from its top."""

    def __init__(self, root: Path) -> None:
        self.root = root
        names = names_in(root)
        self.files = {each for each in names if (root / each).is_file()}
        self.folders = {"."}
        for each in self.files:
            while each := posixpath.dirname(each):
                self.folders.add(each)

    def inside(self, folder: str) -> list[str]:
        """The names in a folder. A name of a folder ends in a slash."""
        prefix = "" if folder == "." else folder + "/"
        names = {each[len(prefix) :] for each in self.files if each.startswith(prefix)}
        parts = (each.partition("/") for each in names)
        return sorted({first + slash for first, slash, _ in parts})

    def resolve(self, page: str, target: str) -> str | None:
        """The file or folder that a link of a page names, or None."""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), unquote(target)))
        return path if path in self.files or path in self.folders else None


def place_on_site(repository: Repository, path: str) -> str:
    """The place on the site of the file or folder at this path: the name of a page's source, or of
    an image.
    """
    if path == "README.md":
        return "index.md"
    if path in repository.folders:
        if path.startswith("docs/") and path + "/index.md" in repository.files:
            return path.removeprefix("docs/") + "/index.md"
        return posixpath.normpath(posixpath.join("files", path, "index.md"))
    if path == "docs/man/tenon.1":
        return "reference/tenon.1.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path.endswith(".md") and "/" not in path:
        return path
    if posixpath.basename(path) == "README.md":
        return place_on_site(repository, posixpath.dirname(path))
    # MkDocs leaves out names that begin with a dot.
    place = re.sub(r"/\.", "/dot-", "files/" + path)
    return place if path.endswith((".md", *IMAGES)) else place + ".md"


def fenced(text: str, language: str) -> str:
    fence = "`" * max(3, 1 + max((len(each) for each in re.findall(r"`+", text)), default=0))
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"


def language_of(path: str, text: str) -> str:
    if posixpath.basename(path) == "CMakeLists.txt":
        return "cmake"
    first = text.partition("\n")[0]
    if first.startswith("#!"):
        return "python" if "python" in first else "bash"
    return LANGUAGES.get(posixpath.splitext(path)[1], "text")


def head(title: str, searchable: bool) -> str:
    """The metadata that MkDocs reads before a page. The search and the navigation leave out a
    source.
    """
    hidden = "" if searchable else "search:\n  exclude: true\nhide:\n  - navigation\n  - toc\n"
    return f"---\ntitle: {title!r}\n{hidden}---\n\n"


def source_page(root: Path, path: str) -> str:
    raw = (root / path).read_bytes()
    title = f"# `{path}`\n\n"
    if len(raw) > LARGEST or b"\0" in raw:
        title += f"The file has {len(raw):,} bytes. The site does not show it.\n"
        return head(path, False) + title
    text = raw.decode("utf-8", "replace")
    return head(path, False) + title + fenced(text, language_of(path, text))


def manual_page(root: Path, path: str) -> str:
    """The manual page as a terminal shows it, or its source if groff is missing."""
    text, language = (root / path).read_text(encoding="utf-8"), "groff"
    if shutil.which("groff"):
        options = ["-Tutf8", "-man", "-rLL=80n", "-P-c", "-P-b", "-P-o", "-P-u"]
        # These requests stop groff from filling lines with blanks and from breaking words.
        text = re.sub(r"(^\.(TH|SH) .*)", r"\1\n.ad l\n.nh", text, flags=re.M)
        command = ["groff", *options]
        done = subprocess.run(command, input=text, capture_output=True, check=True, text=True)
        text, language = done.stdout, "text"
    return head("tenon(1)", True) + "# The program `tenon`\n\n" + fenced(text.strip("\n"), language)


@dataclass
class Site:
    """The pages and images that come from outside docs/, and the problems of their links."""

    repository: Repository
    pages: dict[str, str] = field(default_factory=dict)  # place on the site: Markdown
    images: dict[str, Path] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)  # place on the site: path of the source
    problems: list[str] = field(default_factory=list)

    def collect(self) -> None:
        """Reads docs/ and the Markdown files at the top, and follows their links."""
        waiting = ["docs/man/tenon.1"]
        for path in sorted(self.repository.files):
            if path.endswith(".md") and (path.startswith("docs/") or "/" not in path):
                waiting.append(path)
        folders: list[str] = []
        while waiting:
            path = waiting.pop()
            place = place_on_site(self.repository, path)
            known = path in self.repository.files or path in self.repository.folders
            if place in self.sources or not known:
                continue
            self.sources[place] = path
            if path in self.repository.folders:
                folders.append(path)
                # Links of a folder's page start inside the folder, with or without a README.
                readme = posixpath.normpath(posixpath.join(path, "README.md"))
                self.sources[place] = readme
                if readme in self.repository.files:
                    waiting += self.targets_of(readme)
                if path.partition("/")[0] == READ_WHOLE:
                    for name in self.repository.inside(path):
                        waiting.append(posixpath.join(path, name).rstrip("/"))
                self.pages[place] = ""
            elif path.endswith(IMAGES):
                if not path.startswith("docs/"):
                    self.images[place] = self.repository.root / path
            elif path == "docs/man/tenon.1":
                self.pages[place] = manual_page(self.repository.root, path)
            elif path.endswith(".md"):
                waiting += self.targets_of(path)
                if not path.startswith("docs/"):
                    self.pages[place] = self.read(path)
            elif not path.startswith("docs/"):
                self.pages[place] = source_page(self.repository.root, path)
        # A list links to the files that have a page, so the lists are written last.
        for path in folders:
            self.pages[place_on_site(self.repository, path)] = self.folder_page(path)

    def read(self, path: str) -> str:
        return (self.repository.root / path).read_text(encoding="utf-8")

    def targets_of(self, page: str) -> list[str]:
        found: list[str] = []
        text = self.read(page)
        for link in links_of(text):
            target = link.target.partition("#")[0]
            if not is_of_repository(page, target):
                continue
            path = self.repository.resolve(page, target)
            if path is None:
                where = f"{page}:{line_of(text, link.start)}"
                said = f"the link {link.target!r} leads to no file of the repository"
                self.problems.append(f"{where}: {said}")
            elif posixpath.basename(path) == "README.md" and path != "README.md":
                found.append(posixpath.dirname(path))
            else:
                found.append(path)
        return found

    def folder_page(self, folder: str) -> str:
        readme = posixpath.normpath(posixpath.join(folder, "README.md"))
        if readme in self.repository.files:
            text = self.read(readme).rstrip() + "\n\n## Files in this folder\n\n"
        else:
            text = head(folder, False) + f"# `{folder}/`\n\n"
        for name in self.repository.inside(folder):
            path = posixpath.normpath(posixpath.join(folder, name))
            place = place_on_site(self.repository, path)
            linked = self.sources.get(place) in (path, path + "/README.md") and path != readme
            text += f"- [`{name}`]({name})\n" if linked else f"- `{name}`\n"
        return text

    def rewrite(self, place: str, text: str, url_of: Callable[[str], str | None]) -> str:
        """Rewrite the links of the page at this place, so that they lead to the site's pages and
        images.

        `url_of` gives the address on the site of a page's source, for links in tags.
        """
        page = self.sources.get(place)
        if page is None:
            return text

        def new_target(link: Link) -> str:
            target, mark, fragment = link.target.partition("#")
            if is_rust_name(target):
                there = f"reference/rust/tenon/index.html?search={target.replace(':', '%3A')}"
                return posixpath.relpath(there, posixpath.dirname(place))
            if is_reference(page, target):
                path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
                there = path.removeprefix("docs/") + mark + fragment
                return posixpath.relpath(there, posixpath.dirname(place) or ".")
            if not is_of_repository(page, target):
                return link.target
            path = self.repository.resolve(page, target) or ""
            if not path:
                return link.target  # collect() has reported it
            here, there = place, place_on_site(self.repository, path)
            if link.html:
                there = url_of(there) or there
                here = url_of(place) or place
            return posixpath.relpath(there, posixpath.dirname(here) or ".") + mark + fragment

        return replaced(text, new_target)


def is_of_repository(page: str, target: str) -> bool:
    """Whether a link, without its fragment, should lead to a file of the repository."""
    if not target or is_external(target) or is_rust_name(target):
        return False
    return not is_reference(page, target)


def is_reference(page: str, target: str) -> bool:
    """Whether a link leads to a page of Doxygen or rustdoc, which exists only on the site."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
    return path.startswith(tuple(f"docs/reference/{each}/" for each in FIRST_PAGES))
