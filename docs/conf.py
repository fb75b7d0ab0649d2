"""How `make site` makes one static site of the pages, the docstrings and the notebooks as executed last."""

import re
import shutil
from pathlib import Path

from docutils import nodes
from latex2mathml.converter import convert

HERE = Path(__file__).resolve().parent
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")
FENCED = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)
shutil.rmtree(HERE / "executed", ignore_errors=True)
(HERE / "executed").mkdir()
for profile in ("smoke", "paper"):  # the paper's where there are both
    for path in sorted((HERE.parent / "executed" / profile).glob("*.ipynb")):
        if not path.name.endswith((".failed.ipynb", ".unfinished.ipynb")):
            shutil.copy(path, HERE / "executed" / path.name)

project = "pfpne"
extensions = ["myst_nb", "autodoc2"]
html_theme = "furo"
html_title = "pfpne"
nb_execution_mode = "off"
myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath"]
autodoc2_packages = [{"path": "../pfpne", "exclude_dirs": ["__pycache__", "paper"]}]
autodoc2_render_plugin = "myst"
autodoc2_docstring_parser_regexes = [(".*", "myst")]
autodoc2_hidden_objects = ["private", "inherited", "dunder", "undoc"]
suppress_warnings = ["myst.header", "mystnb.unknown_mime_type"]
html_math_renderer = "mathml"  # which browsers show by themselves: MathJax would come from the network


def relinked(text: str, folder: Path) -> str:
    """A page of `folder`, its relative links as they are on the site; those to what is not on it, their words alone."""

    def link(found: re.Match) -> str:
        picture, words, to, anchor = found.groups("")
        path = (folder / to).resolve()
        if path == HERE.parent / "README.md":
            to = "index.md"
        elif path.is_relative_to(HERE):
            to = path.relative_to(HERE).as_posix()
        elif (HERE / "executed" / path.name).is_file():
            to = f"executed/{path.name}"
        elif path.is_file() and path.suffix not in (".md", ".ipynb"):
            to = f"../{path.relative_to(HERE.parent).as_posix()}"
        else:
            return words
        return f"{picture}[{words}]({to}{anchor})"

    parts = FENCED.split(text)  # code between two texts
    return "".join(part if i % 2 else LINK.sub(link, part) for i, part in enumerate(parts))


def on_page(app, name: str, content: list[str]) -> None:
    if "/" not in name:  # the reference and the notebooks link to nothing here
        content[0] = relinked(content[0], HERE)


def on_included(app, path: Path, parent: str, content: list[str]) -> None:
    content[0] = relinked(content[0], HERE.parent)


def setup(app) -> None:
    """Links, and formulas as MathML."""
    app.connect("source-read", on_page)
    app.connect("include-read", on_included)

    def renderer(display: str):
        def visit(translator, node) -> None:
            translator.body.append(convert(node.astext(), display=display))
            raise nodes.SkipNode

        return visit, None

    app.add_html_math_renderer("mathml", renderer("inline"), renderer("block"))
