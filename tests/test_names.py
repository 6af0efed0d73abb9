"""One name for one idea: a class or a type that another folder also has would mean two things to a reader."""

import ast
from collections import defaultdict
from pathlib import Path

import xdops

ROOT = Path(xdops.__file__).parent

#: What every application of the paper has one of.
ONE_EACH = {"Architecture", "Preset"}


def names(tree: ast.Module) -> list[str]:
    """The classes and types that a file defines; a type is an assignment to a name in CamelCase."""
    found = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            found.append(node.name)
        elif isinstance(node, ast.Assign):
            found += [t.id for t in node.targets if isinstance(t, ast.Name) and t.id[0].isupper() and not t.id.isupper()]
    return [name for name in found if not name.startswith("_")]


def test_no_two_classes_or_types_share_a_name() -> None:
    where = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        if path.parent.name != "cli":  # classes there are commands, named as users call them
            for name in names(ast.parse(path.read_text())):
                where[name].append(str(path.relative_to(ROOT)))
    twice = {name: files for name, files in where.items() if len(files) > 1 and name not in ONE_EACH}
    assert not twice, "\n".join(f"{name}: {', '.join(files)}" for name, files in twice.items())
