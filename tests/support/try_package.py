"""Install the wheel and the sdist as a user would, each into an environment of its own, and use them: `make package` runs this.

python try_package.py DIST: the folder with one wheel and one sdist. The new environments see the packages of the one that runs
this, so that nothing large is downloaded again, but not the xdops that is installed there for development.
"""

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

SEARCH = ["search", "--epochs", "1", "--seeds", "1", "--spaces", "backbone,xd", "-q", "--out", "run"]
USER = """
import torch
import xdops

model = torch.nn.Sequential(torch.nn.Conv1d(1, 2, 3, padding=1))
report: xdops.ConversionReport = xdops.convert_(model, torch.zeros(1, 1, 8))
moved: dict[str, float] = xdops.novelty(model)
wrong: int = report.summary  # type: ignore[assignment]
"""


def main(dist: Path) -> None:
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    for package in (wheel, sdist):
        with tempfile.TemporaryDirectory() as folder:
            try_one(package, Path(folder))
            print(f"{package.name}: installs, searches, reports and is typed")


def try_one(package: Path, folder: Path) -> None:
    """An environment with this package alone beside the installed dependencies."""
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / "bin" / "python"
    own = Path(ask(python, folder, "import sysconfig; print(sysconfig.get_path('purelib'))"))
    (own / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--ignore-installed"]
    run([*install, "--no-build-isolation", package], folder)
    assert Path(ask(python, folder, "import xdops; print(xdops.__file__)")).is_relative_to(own), "another xdops was imported"
    command = folder / "env" / "bin" / "xdops"
    version = ask(python, folder, "import importlib.metadata as m; print(m.version('xdops'))")
    assert run([command, "--version"], folder) == f"xdops {version}\n"
    run([command, *SEARCH], folder)
    assert (folder / "run" / "report.html").exists()
    assert json.loads((folder / "run" / "results.json").read_text())
    (folder / "user.py").write_text(USER)
    run([sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "user.py"], folder)


def ask(python: Path, folder: Path, code: str) -> str:
    return run([python, "-c", code], folder).strip()


def run(words: list[object], folder: Path) -> str:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(list(map(str, words)), cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
