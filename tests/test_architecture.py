"""The rules of the architecture that no tool checks: packaging, sizes of modules and functions, what loads torch."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
LINKED = ("ingest", "replay", "schemas", "tui")
PACKAGE_FOLDERS = ("kerneldb", *LINKED)
MAX_MODULE_LINES = 500
MAX_FUNCTION_LINES = 50

SETUPTOOLS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]


def own_files() -> list[Path]:
    """All files of the packages, each once: symlinks are not followed."""
    walks = (os.walk(ROOT / folder) for folder in PACKAGE_FOLDERS)
    paths = (Path(top, name) for walk in walks for top, _, names in walk if "__pycache__" not in top for name in names)
    return sorted(paths)


MODULES = [path for path in own_files() if path.suffix == ".py"]


def label(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def package_of(folder: Path) -> str:
    parts = folder.relative_to(ROOT).parts
    return ".".join(parts if parts[0] == "kerneldb" else ("kerneldb", *parts))


def test_pyproject_lists_every_package() -> None:
    found = {package_of(path.parent) for path in MODULES if path.name == "__init__.py"}
    assert set(SETUPTOOLS["packages"]) == found


def test_modules_lie_in_packages() -> None:
    homeless = [label(path) for path in MODULES if not (path.parent / "__init__.py").exists()]
    assert homeless == []


def test_pyproject_maps_every_linked_folder() -> None:
    expected = {"kerneldb": "kerneldb"} | {f"kerneldb.{folder}": folder for folder in LINKED}
    assert SETUPTOOLS["package-dir"] == expected


def test_wheel_carries_every_data_file() -> None:
    patterns = {
        (ROOT / SETUPTOOLS["package-dir"].get(package, package.replace(".", "/")) / pattern)
        for package, found in SETUPTOOLS["package-data"].items()
        for pattern in found
    }
    carried = {path for pattern in patterns for path in ROOT.glob(str(pattern.relative_to(ROOT)))}
    compiled = {".c", ".h", ".so"}  # setuptools is told which
    others = [path for path in own_files() if path.suffix not in {".py", *compiled}]
    assert [label(path) for path in others if path not in carried] == []


@pytest.mark.parametrize("folder", LINKED)
def test_linked_folder_is_the_package(folder: str) -> None:
    link = ROOT / "kerneldb" / folder
    assert link.is_symlink()
    assert link.readlink() == Path("..", folder)
    assert (link / "__init__.py").samefile(ROOT / folder / "__init__.py")


def test_git_keeps_the_links_as_links() -> None:
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = [git, "ls-files", "--stage", "--", *(f"kerneldb/{folder}" for folder in LINKED)]
    staged = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    modes = {line.split("\t")[1]: line.split()[0] for line in staged}
    assert modes == {f"kerneldb/{folder}": "120000" for folder in LINKED}


def test_modules_are_short() -> None:
    texts = {label(path): path.read_text(encoding="utf-8").splitlines() for path in MODULES}
    lengths = {name: sum(1 for line in lines if line.strip()) for name, lines in texts.items()}
    assert {name: length for name, length in lengths.items() if length > MAX_MODULE_LINES} == {}


def test_functions_are_short() -> None:
    lengths = {
        f"{label(path)}:{node.name}": length_of(node)
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: length for name, length in lengths.items() if length > MAX_FUNCTION_LINES} == {}


def test_plans_are_made_without_torch() -> None:
    modules = ("api.stepping", "api.improving", "replay.worker.steps")
    code = f"import sys; sys.modules['torch'] = None; import {', '.join(f'kerneldb.{name}' for name in modules)}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def length_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, docstring included and decorators not."""
    return (node.end_lineno or node.lineno) - node.lineno + 1
