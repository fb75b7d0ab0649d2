"""How `make site` makes one static site of the pages, the docstrings and the notebooks as executed last."""

import shutil
from pathlib import Path

from docutils import nodes
from latex2mathml.converter import convert

HERE = Path(__file__).resolve().parent
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
suppress_warnings = ["myst.header", "myst.xref_missing", "mystnb.unknown_mime_type"]
html_math_renderer = "mathml"  # which browsers show by themselves: MathJax would come from the network


def setup(app) -> None:
    """Formulas as MathML."""

    def renderer(display: str):
        def visit(translator, node) -> None:
            translator.body.append(convert(node.astext(), display=display))
            raise nodes.SkipNode

        return visit, None

    app.add_html_math_renderer("mathml", renderer("inline"), renderer("block"))
