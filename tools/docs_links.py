"""Checks that each link of the built site and of the repository's Markdown files leads somewhere.

usage: docs_links.py [--root FOLDER] [--site FOLDER] [--external FILE]

A link of a page must lead to a file of the site, and a fragment to an id of that file. Pages that
Doxygen and rustdoc wrote are not searched for links, but links may lead to them. A Markdown file
must link to files of the repository. Links to other hosts cannot be followed here: each must be a
line of FILE, and each line must be a link of some page. Prints a line for each problem. Exits with
1 if there is one, and with 2 if the site has no pages.
"""

from __future__ import annotations

import argparse
import functools
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import docs_pages

EXTERNAL = docs_pages.ROOT / "tools" / "docs-external-links.txt"
# The attributes with which a page names another file. A srcset has several addresses, each with a
# width.
ATTRIBUTES = ("href", "src", "srcset", "poster")
NO_FRAGMENTS = ("#only-light", "#only-dark")  # these choose an image for a colour scheme


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[tuple[int, str]] = []
        self.ids: set[str] = set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (name == "name" and tag == "a"):
                self.ids.add(value)
            elif name in ATTRIBUTES:
                parts = value.split(",") if name == "srcset" else [value]
                line = self.getpos()[0]
                self.links += [(line, each.split()[0]) for each in parts if each.strip()]


@functools.cache
def read_page(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8", errors="replace"))


def is_made_here(path: Path, site: Path) -> bool:
    parts = path.relative_to(site).parts
    return not (parts[0] == "reference" and parts[1] in docs_pages.FIRST_PAGES)


def problem_of(link: str, page: Path, site: Path) -> str | None:
    target, _, fragment = link.partition("#")
    target = target.partition("?")[0]
    there = page if not target else (page.parent / unquote(target)).resolve()
    if not there.is_relative_to(site):
        return f"{link!r} leads out of the site"
    # A file system, unlike a server, does not look for a folder's index.html.
    if not there.is_file():
        return f"there is no {there.relative_to(site)}"
    if fragment and there.suffix == ".html" and unquote(fragment) not in read_page(there).ids:
        return f"{there.relative_to(site)} has no id {fragment!r}"
    return None


def check_site(site: Path, external: dict[str, str]) -> tuple[list[str], int]:
    """Return the problems of the site's links and the number of links. Add links to other hosts to
    `external`.
    """
    # The navigation is in all pages, so a problem that many pages have gets one line.
    found: dict[str, list[str]] = {}
    count = 0
    for path in sorted(site.rglob("*.html")):
        # A server shows the page of an error at any address, so the page's links cannot be
        # relative.
        if path == site / "404.html" or not is_made_here(path, site):
            continue
        for line, link in read_page(path).links:
            count += 1
            where = f"{path.relative_to(site)}:{line}"
            if link.startswith("data:"):
                continue
            if link.endswith(NO_FRAGMENTS):
                link = link.partition("#")[0]
            if docs_pages.is_external(link):
                external.setdefault(link, where)
            elif said := problem_of(link, path, site):
                found.setdefault(said, []).append(where)
    problems = []
    for said, places in found.items():
        more = f" and {len(places) - 1} other places" if len(places) > 1 else ""
        problems.append(f"{places[0]}{more}: {said}")
    return problems, count


def check_markdown(repository: docs_pages.Repository, external: dict[str, str]) -> list[str]:
    """Return the problems of all Markdown files' links, whether or not the site has the file."""
    problems: list[str] = []
    for page in sorted(each for each in repository.files if each.endswith(".md")):
        text = (repository.root / page).read_text(encoding="utf-8")
        for link in docs_pages.links_of(text):
            where = f"{page}:{docs_pages.line_of(text, link.start)}"
            target = link.target.partition("#")[0]
            if docs_pages.is_external(link.target):
                external.setdefault(link.target, where)
                continue
            if not docs_pages.is_of_repository(page, target):
                continue
            if repository.resolve(page, target) is None:
                problems.append(f"{where}: {link.target!r} leads to no file of the repository")
    return problems


def check_external(external: dict[str, str], allowed: set[str], name: str) -> list[str]:
    problems = []
    for link, where in external.items():
        if link not in allowed:
            problems.append(f"{where}: {link!r} is not in {name}: add it if it is right")
    for link in sorted(allowed - external.keys()):
        problems.append(f"{name}: no page has {link!r} any more: remove the line")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks the links of the site.")
    parser.add_argument("--root", type=Path, default=docs_pages.ROOT)
    parser.add_argument("--site", type=Path)
    parser.add_argument("--external", type=Path, default=EXTERNAL)
    chosen = parser.parse_args()
    root: Path = chosen.root.resolve()
    site: Path = (chosen.site or root / "build" / "site").resolve()
    lines = chosen.external.read_text(encoding="utf-8").splitlines()
    allowed = {each.strip() for each in lines if each.strip() and not each.startswith("#")}

    external: dict[str, str] = {}
    problems, count = check_site(site, external)
    if not count:
        print(
            f"{site}: there is no page with a link here; ./tools/docs builds the site",
            file=sys.stderr,
        )
        return 2
    problems += check_markdown(docs_pages.Repository(root), external)
    problems += check_external(external, allowed, chosen.external.name)
    for problem in problems:
        print(problem, file=sys.stderr)
    said = f"{count:,} links of the site, {len(external)} links to other hosts"
    print(f"{said}: {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
