"""What is in the wheel: all modules, the marker of type information, one version, extras that exist."""

import re
import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

import xdops

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    pytest.importorskip("hatchling")
    out = tmp_path_factory.mktemp("wheel")
    code = f"import hatchling.build; hatchling.build.build_wheel({str(out)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)
    (path,) = out.glob("*.whl")
    return zipfile.ZipFile(path)


def test_a_wheel_holds_every_module_and_the_type_information_and_nothing_else(wheel: zipfile.ZipFile):
    inside = {name for name in wheel.namelist() if ".dist-info/" not in name}
    files = [path.relative_to(ROOT / "src") for path in (ROOT / "src").rglob("*") if path.is_file()]
    source = {str(path) for path in files if "__pycache__" not in path.parts}
    assert inside == source
    assert "xdops/py.typed" in inside


def test_a_wheel_says_the_version_of_the_package_and_extras_that_exist(wheel: zipfile.ZipFile):
    (name,) = [name for name in wheel.namelist() if name.endswith("METADATA")]
    facts = message_from_bytes(wheel.read(name))
    assert facts["Version"] == xdops.__version__
    assert {"ray", "onnx", "docs", "kernels"} <= set(facts.get_all("Provides-Extra"))
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13)} <= set(facts.get_all("Classifier"))
    named = {extra for text in (ROOT / "src").rglob("*.py") for extra in re.findall(r"xdops\[(\w+)\]", text.read_text())}
    assert named <= set(facts.get_all("Provides-Extra"))


def test_what_is_pinned_is_what_is_asked_for():
    """Every dependency of pyproject.toml has one version in constraints.txt."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(d for extra in project["optional-dependencies"].values() for d in extra)]
    names = {re.split(r"[\[<>=]", text)[0] for text in asked}
    pinned = {line.split("==")[0] for line in (ROOT / "constraints.txt").read_text().split()}
    assert names - pinned == set()
