"""How `make site` makes one static site of the pages, the docstrings and the notebooks as executed last."""

import inspect
import json
import re
import shutil
import sys
from pathlib import Path

from docutils import nodes
from latex2mathml.converter import convert

import pfpne

HERE = Path(__file__).resolve().parent
LINKED_PICTURE = re.compile(r"\[(<img [^>]*>)\]\([^)]*\)")
PICTURE = re.compile(r'<img src="([^"]+)" alt="([^"]*)" width="(\d+)">')
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")
FENCED = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)
NOTEBOOK = re.compile(r"(\d+_[a-z_0-9]+?)(?:_(printed|model|garland|himmelblau|rastrigin|doublesine|ackley)\b.*)?$")
WIDGET = "application/vnd.jupyter.widget-view+json"
NO_SLIDERS = "*The sliders need a running kernel: open this notebook in JupyterLab to move them.*"


def copy_executed() -> None:
    """Put the executed notebooks beside the pages: those of the paper profile, of smoke where there are no others."""
    target = HERE / "executed"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    paths = {}
    for profile in ("smoke", "paper"):
        for path in sorted((HERE.parent / "executed" / profile).glob("*.ipynb")):
            if not path.name.endswith((".failed.ipynb", ".unfinished.ipynb")):
                paths[path.stem] = (profile, path)
    for name, (profile, path) in paths.items():
        content = json.loads(path.read_text(encoding="utf-8"))
        for cell in content["cells"]:
            if cell["cell_type"] == "markdown":
                cell["source"] = on_site("".join(cell["source"]), [*paths])
            shown = cell.get("outputs", [])
            cell["outputs"] = [output for output in shown if WIDGET not in output.get("data", {})]
            if len(cell["outputs"]) < len(shown):
                text = {"output_type": "display_data", "metadata": {}, "data": {"text/markdown": NO_SLIDERS}}
                cell["outputs"].append(text)
            if cell["cell_type"] == "markdown":
                del cell["outputs"]
        content["metadata"].pop("widgets", None)
        tags = [cell["metadata"].get("tags", []) for cell in content["cells"]]
        if ["injected-parameters"] in tags:  # they say what was run: the notebook's own values were not
            content["cells"] = [c for c, tag in zip(content["cells"], tags, strict=True) if tag != ["parameters"]]
        first = content["cells"][0]
        heading, _, rest = first["source"].partition("\n")
        what = name.removeprefix(notebook_of(name)).strip("_").replace("_", ", ")
        made = f"*Made with the profile {profile}.*"
        which = f" ({what})" if what else ""
        first["source"] = f"{heading}{which}\n\n{made}\n{rest}"
        (target / path.name).write_text(json.dumps(content), encoding="utf-8")
    if not paths:
        text = (
            "# No notebook was executed yet\n\nRun `make figures`, or `make figures PROFILE=smoke`, then `make site`.\n"
        )
        (target / "none.md").write_text(text, encoding="utf-8")


def notebook_of(name: str) -> str:
    """The notebook that an executed copy is of."""
    return NOTEBOOK.match(name)[1]


def on_site(text: str, names: list[str]) -> str:
    """The words of a notebook with its links as they are on the site."""
    text = text.replace("](../docs/", "](../").replace("](../README.md", "](../index.md")

    def link(found: re.Match) -> str:
        copies = [name for name in names if notebook_of(name) == found[2]]
        return f"[{found[1]}]({copies[0]}.ipynb)" if copies else found[1]

    return re.sub(r"\[([^\]]*)\]\((\d+_\w+)\.ipynb\)", link, text)


copy_executed()
sys.path.insert(0, str(HERE))  # where numpydoc_myst is

project = "pfpne"
extensions = ["myst_nb", "autodoc2"]
html_theme = "furo"
html_title = "pfpne"
nb_execution_mode = "off"
nb_ipywidgets_js = {}  # which would come from the network
myst_heading_anchors = 3
myst_enable_extensions = ["attrs_inline", "dollarmath"]
autodoc2_packages = [{"path": "../pfpne", "exclude_dirs": ["__pycache__", "paper"]}]
autodoc2_render_plugin = "myst"
autodoc2_docstring_parser_regexes = [(".*", "numpydoc_myst")]
autodoc2_hidden_objects = ["private", "inherited", "dunder", "undoc"]
suppress_warnings = ["myst.header", "mystnb.unknown_mime_type"]
html_math_renderer = "mathml"  # which browsers show by themselves: MathJax would come from the network


def public_names() -> str:
    """A table of what `pfpne` offers: each name, linked to its reference, with its first sentence."""
    rows = ["| Name | What it is |", "|---|---|"]
    for name in sorted(pfpne.__all__, key=str.lower):
        thing = getattr(pfpne, name)
        sentence = inspect.getdoc(thing).split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
        rows.append(f"| {{py:obj}}`{name} <{thing.__module__}.{thing.__qualname__}>` | {sentence} |")
    return "\n".join(rows)


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

    text = LINKED_PICTURE.sub(r"\1", text)  # a picture is shown as it is
    text = PICTURE.sub(r"![\2](\1){width=\3px}", text)  # HTML's own would be looked for beside the page
    parts = FENCED.split(text)  # code between two texts
    return "".join(part if i % 2 else LINK.sub(link, part) for i, part in enumerate(parts))


def on_page(app, name: str, content: list[str]) -> None:
    content[0] = content[0].replace("<!-- public names -->", public_names() if name == "reference" else "")
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
