"""How the documentation is built: `make docs`. Warnings are errors."""

import dataclasses
import inspect
import json
import os
import re
from pathlib import Path
from typing import Any

import matplotlib

import xdops

matplotlib.use("Agg")
project, author, release = "xdops", "the authors of xdops", xdops.__version__
copyright = author
extensions = ["sphinx.ext.autodoc", "myst_parser", "sphinx_gallery.gen_gallery"]
exclude_patterns = ["_build", "examples", "data"]
html_theme = "furo"
highlight_language = "none"  # what is set apart in docstrings are formulas; the examples say that they are Python
html_title = f"xdops {release}"

myst_heading_anchors = 3
myst_enable_extensions = ["substitution"]
suppress_warnings = ["myst.xref_missing", "myst.header", "config.cache"]  # pages that are read on their own, too, link to files

autodoc_typehints = "description"
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False
autodoc_default_options = {"members": True}
autodoc_preserve_defaults = True
# Docstrings are plain words, with formulas as they are written in code.
default_role = None

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_" if not os.environ.get("XDOPS_GALLERY") else os.environ["XDOPS_GALLERY"],
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "abort_on_example_error": True,
    "min_reported_time": 600,
}


#: Tables of results, and which of their methods is the search space around which.
COMPARED = {
    "burgers": ("CNN", "CNN XD"),
    "darcy": ("CNN", "CNN XD"),
    "navier-stokes": ("CNN", "CNN XD"),
    "cifar": ("backbone", "XD"),
    "music": ("undilated TCN", "undilated TCN XD"),
}


def comparisons() -> str:
    """The plain network and XD around it, wherever both were run: a table of what is in results/ now."""
    lines = ["| | metric | plain | XD | seeds |", "| --- | --- | ---: | ---: | --- |"]
    for table, (plain, searched) in COMPARED.items():
        found = json.loads((Path(__file__).parent.parent / "results" / f"{table}-laptop.json").read_text())
        rows = {(row["method"], str(row["setting"]), row["metric"]): row for row in found.get("content", found)["rows"]}
        for (method, setting, metric), row in rows.items():
            other = rows.get((searched, setting, metric))
            if method == plain and other is not None and row["mean"] is not None and other["mean"] is not None:
                where = ", ".join(f"{key} {value}" for key, value in row["setting"].items())
                seeds = f"{len(row['seeds'])} and {len(other['seeds'])}"
                lines.append(f"| {table}, {where} | {metric} | {row['mean']:.4g} | {other['mean']:.4g} | {seeds} |")
    return "\n".join(lines)


myst_substitutions: dict[str, Any] = {"comparisons": comparisons()}


def plain(app: object, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Docstrings are no reStructuredText: every paragraph as it stands, indented ones as formulas and examples."""
    text: list[str] = []
    block = False
    for line in lines:
        indented = line.startswith("    ")
        if indented and not block:
            text += ["", "::", ""]
        elif not indented and block and line:
            text.append("")
        block = indented or (block and not line)
        text.append(line if indented or not line else escaped(line))
    lines[:] = text + (fields_of(obj) if what == "class" and dataclasses.is_dataclass(obj) else [])


def fields_of(dataclass: type) -> list[str]:
    """What the comments behind a dataclass's fields say, which autodoc does not read."""
    said = dict(re.findall(r"^    (\w+): [^#\n]*  # (.+)$", inspect.getsource(dataclass), re.M))
    return ["", *(f":param {name}: {escaped(text)}" for name, text in said.items()), ""]


def escaped(line: str) -> str:
    """Stars, bars and backticks are meant as they are; `words` in backticks are code."""
    parts = line.split("`")
    if len(parts) % 2 == 0:
        return line.replace("`", "'")
    quiet = [part.replace("\\", "\\\\").replace("*", "\\*").replace("|", "\\|").replace("_", "\\_") for part in parts]
    return "".join(part if i % 2 == 0 else f"``{parts[i]}``" for i, part in enumerate(quiet))


def setup(app: object) -> None:
    app.connect("autodoc-process-docstring", plain)  # type: ignore[attr-defined]
