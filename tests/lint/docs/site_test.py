"""Builds the site (tools/docs), which checks its links, and looks at it in a headless Chromium.

usage: site_test.py [--built]

The first page is opened as a light and as a dark system shows it, in a window of a desktop and in
one of a phone. Pictures of it go to <build>/docs/*.png. --built looks at the site that is there.
Exits with 77 after the build if this machine has no Chromium.
"""

from __future__ import annotations

import functools
import http.server
import os
import subprocess
import sys
import threading
from pathlib import Path

import site_browser

SOURCE = Path(os.environ.get("TENON_SOURCE_DIR", Path(__file__).resolve().parents[3]))
BUILD = Path(os.environ.get("TENON_BUILD_DIR", SOURCE / "build" / "dev"))
SITE = SOURCE / "build" / "site"

# One id or text that each reference must have.
REFERENCES = {
    "reference/c/connection_8h.html": "tenon_send",
    "reference/c/tenon_8h.html": "Ownership",
    "reference/c/version_8h.html": "TENON_VERSION_MAJOR",
    "reference/cpp/classtenon_1_1Connection.html": "try_make",
    "reference/python.html": 'id="tenon.Connection.send"',
    "reference/go.html": 'id="connectionsend"',
    "reference/rust/tenon/index.html": "struct.Connection.html",
    "reference/tenon.1.html": "doctor",
}

# Functions of the page that the checks below call.
HELPERS = """
window.seen = element => {
  const box = element.getBoundingClientRect(), style = getComputedStyle(element)
  return box.width > 0 && box.height > 0 && style.visibility === "visible"
}
window.parts = text => (text.match(/[\\d.]+/g) || []).map(Number)
window.over = (above, below) => {
  const alpha = above.length > 3 ? above[3] : 1
  return [0, 1, 2].map(at => above[at] * alpha + below[at] * (1 - alpha))
}
window.ground = element => {
  if (!element) return [255, 255, 255]
  return over(parts(getComputedStyle(element).backgroundColor), ground(element.parentElement))
}
window.light = colour => {
  const [r, g, b] = colour.map(each => {
    each /= 255
    return each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}
window.contrast = element => {
  const below = ground(element), text = over(parts(getComputedStyle(element).color), below)
  const [less, more] = [light(below), light(text)].sort((a, b) => a - b)
  return (more + 0.05) / (less + 0.05)
}
"""

# The text with the least contrast: [contrast, the element, its text].
FAINTEST = """(() => {
  const found = []
  const walk = document.createTreeWalker(document.querySelector("article"), NodeFilter.SHOW_TEXT)
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement, text = walk.currentNode.textContent.trim()
    if (!text || !seen(element)) continue
    if (element.closest(".headerlink, .md-clipboard, script, style")) continue
    found.push([contrast(element), element.tagName + "." + element.className, text.slice(0, 40)])
  }
  return found.sort((a, b) => a[0] - b[0]).slice(0, 3)
})()"""

# The text of all visible blocks of code.
BLOCKS = "[...document.querySelectorAll('article pre')].filter(seen).map(e => e.innerText).join()"
IMAGES = "[...document.querySelectorAll('article img')].filter(seen)"
LINKS = "[...document.querySelectorAll('.md-nav a[href]')].map(a => a.href.split('#')[0])"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *words: object) -> None:
        pass


def build() -> None:
    subprocess.run([str(SOURCE / "tools" / "docs"), "--no-snippets"], check=True)


def check_references() -> None:
    for name, wanted in REFERENCES.items():
        page = SITE / name
        assert page.is_file(), f"there is no {page}"
        text = page.read_text(encoding="utf-8")
        if "<title>Not built</title>" not in text:  # tools/docs has said why
            assert wanted in text, f"{page} does not have {wanted}"


def check_no_trouble(page: site_browser.Browser, base: str) -> None:
    complaints = page.complaints()
    assert not complaints, complaints
    away = [each for each in page.requests() if not each.startswith((base, "data:", "blob:"))]
    assert not away, f"the page asks other hosts: {away}"


def check_look(page: site_browser.Browser, scheme: str) -> None:
    ground = page.ask("light(ground(document.body))")
    right = ground > 0.85 if scheme == "light" else ground < 0.05
    assert right, f"{scheme}: the background has {ground}"
    for contrast, element, text in page.ask(FAINTEST):
        assert contrast >= 4.5, f"{scheme}: {element} {text!r} has a contrast of {contrast:.2f}"
    # Of a light and a dark picture the page shows one, and it must be the right one.
    pictures = page.ask(IMAGES + ".map(i => [i.src, i.naturalWidth])")
    assert pictures, "the first page shows no picture"
    for source, width in pictures:
        assert width > 0, f"{source} is not loaded"
        assert ("-dark" in source) == (scheme == "dark"), f"{scheme}: the page shows {source}"


def check_first_page(page: site_browser.Browser, base: str, scheme: str, width: int) -> None:
    page.look_like(scheme, width, 900)
    page.go(base + "index.html")
    page.ask(HELPERS)
    check_no_trouble(page, base)
    heading = page.ask("[document.querySelector('h1')].filter(seen).map(h => h.innerText).join()")
    assert heading.startswith("Tenon"), f"the first heading is {heading!r}"
    blocks = page.ask(BLOCKS)
    for wanted in ("/tools/demo", "/tools/test", "import tenon"):
        assert wanted in blocks, f"no visible block of code has {wanted!r}"
    check_look(page, scheme)
    check_width(page, width)
    page.screenshot(BUILD / "docs" / f"first-page-{scheme}-{width}.png")


def check_width(page: site_browser.Browser, width: int) -> None:
    needed = page.ask("document.documentElement.scrollWidth")
    assert needed <= width, f"the page is {needed} wide in a window of {width}"


def check_switch(page: site_browser.Browser, base: str) -> None:
    """The reader's switch overrides the system, and the pictures follow the switch."""
    page.look_like("light", 1280, 900)
    page.go(base + "index.html")
    page.ask(HELPERS)
    page.ask("document.querySelectorAll('input[name=__palette]')[2].click()")
    # The colours change in a transition, which must end first.
    page.ask("new Promise(done => setTimeout(done, 600))")
    check_look(page, "dark")
    page.ask("localStorage.clear()")


def check_search(page: site_browser.Browser, base: str) -> None:
    page.go(base + "index.html")
    found = page.ask("""new Promise(done => {
      const field = document.querySelector("[data-md-component=search-query]")
      field.focus()
      field.value = "lease"
      field.dispatchEvent(new Event("input", { bubbles: true }))
      field.dispatchEvent(new KeyboardEvent("keyup", { bubbles: true }))
      const end = Date.now() + 60000
      const look = () => {
        const count = document.querySelectorAll(".md-search-result__item").length
        if (count || Date.now() > end) done(count)
        else setTimeout(look, 50)
      }
      look()
    })""")
    check_no_trouble(page, base)
    assert found, f"{base}: the search finds no page about leases"


def check_other_pages(page: site_browser.Browser, base: str) -> None:
    """Looks at every page of the navigation in a phone's window. Scripts are off, because each page
    would build the index of the search. Doxygen's and rustdoc's pages are left out, because those
    tools decide how the pages look.
    """
    page.look_like("light", 390, 844)
    page.go(base + "index.html")
    links = dict.fromkeys(page.ask(LINKS))
    others = tuple(f"{base}reference/{each}/" for each in ("c", "cpp", "rust"))
    names = [each for each in links if each.startswith(base) and not each.startswith(others)]
    assert len(names) > 10, f"the navigation has only {names}"
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    for name in names:
        page.go(name)
        check_no_trouble(page, base)
        try:
            check_width(page, 390)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None
    page.call("Emulation.setScriptExecutionDisabled", value=False)


def main() -> int:
    if "--built" not in sys.argv[1:]:
        build()
    check_references()
    program = site_browser.find_chromium()
    if program is None:
        print("skipped: this machine has no Chromium (Debian: apt-get install chromium)")
        return 77
    handler = functools.partial(Quiet, directory=str(SITE))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}/"
    with site_browser.browser(program) as page:
        for scheme in ("light", "dark"):
            for width in (1280, 390):
                check_first_page(page, base, scheme, width)
        check_switch(page, base)
        # The search must work from a server and from files.
        for each in (base, SITE.as_uri() + "/"):
            check_search(page, each)
        check_other_pages(page, base)
    server.shutdown()
    print("the first page looks right, light and dark, on a desktop and on a phone")
    return 0


if __name__ == "__main__":
    sys.exit(main())
