"""Docstrings in numpydoc's layout as Markdown: the parser that the reference of `make site` is made with."""

import inspect
import re

from myst_parser.sphinx_ import Parser as MystParser

HEADING = re.compile(r"^(Parameters|Attributes|Returns|Raises|Notes|Examples)\n-+\n", re.MULTILINE)
EXAMPLE = re.compile(r"^>>> .*?(?=\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)


def entries_as_list(text: str) -> str:
    """Return a section of names, each with an indented description below, as a list."""
    items = re.findall(r"^(\S.*)\n((?:(?:[ ]+.*)?\n?)*)", text.strip() + "\n", re.MULTILINE)
    return "\n".join(f"- `{name}`: {' '.join(description.split())}" for name, description in items)


def as_markdown(docstring: str) -> str:
    """Return a docstring with bold headings, lists of arguments, and fenced examples."""
    summary, *sections = HEADING.split(inspect.cleandoc(docstring))
    parts = [summary]
    for heading, text in zip(sections[::2], sections[1::2], strict=True):
        described = heading in ("Parameters", "Attributes", "Returns", "Raises")
        parts.append(f"**{heading}**\n\n{entries_as_list(text) if described else text}")
    return EXAMPLE.sub(lambda example: f"```pycon\n{example[0]}\n```", "\n\n".join(parts))


class Parser(MystParser):
    """MyST's parser, for docstrings in numpydoc's layout."""

    def parse(self, inputstring: str, document) -> None:
        """Parse a docstring into the document."""
        super().parse(as_markdown(inputstring), document)
