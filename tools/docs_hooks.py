"""Hooks of MkDocs: they add the pages that come from outside docs/ (tools/docs_pages.py), and the
HTML of Doxygen and rustdoc, which tools/docs has put into build/docs."""

from __future__ import annotations

import importlib
import logging
import os
from pathlib import Path
from typing import Any

import docs_go
import docs_pages

log = logging.getLogger("mkdocs.hooks.tenon")
site = docs_pages.Site(docs_pages.Repository(docs_pages.ROOT))
MADE = Path(os.environ.get("TENON_DOCS_MADE", docs_pages.ROOT / "build" / "docs"))


def on_files(files: Any, config: Any) -> Any:
    file_type = importlib.import_module("mkdocs.structure.files").File
    site.collect()
    for problem in site.problems:
        log.warning(problem)
    for place, text in site.pages.items():
        files.append(file_type.generated(config, place, content=text))
    for place, path in site.images.items():
        files.append(file_type.generated(config, place, abs_src_path=str(path)))
    for name in docs_pages.FIRST_PAGES:
        add_reference(files, config, file_type, name)
    return files


def add_reference(files: Any, config: Any, file_type: Any, name: str) -> None:
    folder = MADE / name
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            place = f"reference/{name}/{path.relative_to(folder).as_posix()}"
            # MkDocs would take a font's licence for a page.
            if path.suffix == ".md":
                place += ".txt"
            files.append(file_type.generated(config, place, abs_src_path=str(path)))
    # Pages link to these files even if the machine lacks the tool that writes them.
    text = f"<!doctype html><title>Not built</title><p>This machine has no reference {name}."
    for needed in docs_pages.FIRST_PAGES[name]:
        if not (folder / needed).is_file():
            files.append(file_type.generated(config, f"reference/{name}/{needed}", content=text))


def on_nav(nav: Any, config: Any, files: Any) -> Any:
    """MkDocs takes only pages into the navigation, and these references are HTML of other tools."""
    link_type = importlib.import_module("mkdocs.structure.nav").Link
    for section in nav.items:
        if section.title == "Reference":
            for place, name, title in ((1, "c", "C"), (2, "cpp", "C++"), (4, "rust", "Rust")):
                link = link_type(title, f"reference/{name}/index.html")
                link.parent = section
                section.children.insert(place, link)
    return nav


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    def url_of(place: str) -> str | None:
        found = files.get_file_from_path(place)
        return found.dest_uri if found else None

    made = docs_pages.pictures_that_switch(site.rewrite(page.file.src_uri, markdown, url_of))
    if page.file.src_uri == "reference/go.md":
        made += "\n" + docs_go.page(docs_pages.ROOT / "wrappers" / "go")
    return made


def on_page_context(context: Any, page: Any, config: Any, nav: Any) -> Any:
    if page.file.src_uri == "index.md":
        # The first page has no neighbours, so a column of navigation beside it would be empty.
        page.meta["hide"] = ["navigation"]
    return context
