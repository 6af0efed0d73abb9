"""The import contract: folders only import downwards, and no file imports itself through others."""

import ast
from pathlib import Path

import xdops

ROOT = Path(xdops.__file__).parent

#: From the floor to the command line; folders on one line do not know each other.
LAYERS = (
    ("errors",),
    ("arguments",),
    ("storage", "measuring"),
    ("matrices",),
    ("engine",),
    ("operations",),
    ("convert",),
    ("spaces",),
    ("search",),
    ("workers",),
    ("backbones", "pde"),
    ("data",),
    ("experiments",),
    ("reproduce",),
    ("bench",),
    ("report",),
    ("cli",),
    ("__main__",),
)
RANK = {name: rank for rank, row in enumerate(LAYERS) for name in row}


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = ("xdops", *path.relative_to(ROOT).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imported(path: Path, everywhere: bool) -> set[str]:
    """The modules of the package that a file imports: when it is loaded, or `everywhere`, inside functions too."""
    tree = ast.parse(path.read_text())
    nodes = list(ast.walk(tree)) if everywhere else list(loaded(tree))
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in MODULES else str(node.module))
    return {name for name in found if name in MODULES}


def loaded(node: ast.AST):
    """Statements that run when a file is imported: not those in functions, nor those for type checkers alone."""
    for child in ast.iter_child_nodes(node):
        typing_only = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and not typing_only:
            yield child
            yield from loaded(child)


def folder(name: str) -> str | None:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else None


def test_every_folder_has_its_place_in_the_order() -> None:
    assert {folder(name) for name in MODULES} - {None} == set(RANK)


def test_folders_import_downwards_only() -> None:
    wrong = [
        f"{name} imports {other}"
        for name, path in MODULES.items()
        for other in imported(path, everywhere=True)
        if (here := folder(name)) and (there := folder(other)) and here != there and RANK[there] >= RANK[here]
    ]
    assert not wrong, "\n".join(wrong)


def test_no_file_imports_itself_through_others() -> None:
    graph = {name: imported(path, everywhere=False) - {name} for name, path in MODULES.items()}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, "a cycle: " + " -> ".join((*trail[trail.index(name) :], name))
        if name in done:
            return
        for other in sorted(graph[name]):
            # A file of a package may be imported from its own package's __init__, which lists what is public.
            if not name.startswith(f"{other}."):
                visit(other, (*trail, name))
        done.add(name)

    for name in graph:
        visit(name, ())


def test_matrices_engine_and_operations_need_torch_alone() -> None:
    allowed = {"torch", "numba", "xdops"}
    import sys

    for name, path in MODULES.items():
        if folder(name) in ("matrices", "engine", "operations"):
            for node in ast.walk(ast.parse(path.read_text())):
                tops = (
                    [a.name for a in node.names]
                    if isinstance(node, ast.Import)
                    else [str(node.module)]
                    if isinstance(node, ast.ImportFrom)
                    else []
                )
                for top in (t.split(".")[0] for t in tops):
                    part_of_numba = top == "llvmlite" and name.startswith("xdops.engine.kernels.")
                    assert top in allowed or part_of_numba or top in sys.stdlib_module_names, f"{name} imports {top}"
