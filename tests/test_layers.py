"""Imports point down only: environments below trainers below recipes, and patches stand alone.

Read from the source, so that a stray import is found even in a function that no test calls.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "trl_agentenvs"
TRAINING_LIBRARIES = {"accelerate", "peft", "torch", "transformers", "trl", "vllm"}
ABOVE_ENVIRONMENTS = {"trl_agentenvs.training", "trl_agentenvs.cli", "trl_agentenvs.recipes", "trl_agentenvs.patches"}

CORE = sorted(PACKAGE.glob("*.py"))
CHECK = sorted((PACKAGE / "check").glob("*.py"))
ALFWORLD = sorted((PACKAGE / "alfworld").glob("*.py"))
TRAINING = sorted((PACKAGE / "training").glob("*.py"))
PATCHES = sorted((ROOT / "patches").glob("*.py"))


def label(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def nodes(tree: ast.AST, *, into_functions: bool) -> Iterator[ast.AST]:
    """Every node that runs: at import, and inside functions if asked; imports for type checkers never run."""
    for child in ast.iter_child_nodes(tree):
        if is_type_checking(child):
            continue
        if not into_functions and isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        yield child
        yield from nodes(child, into_functions=into_functions)


def imports(path: Path, *, into_functions: bool = True) -> set[str]:
    """Dotted names of the modules that a file imports, relative ones resolved."""
    folder = path.parent.relative_to(ROOT)
    package = ("trl_agentenvs." if folder.parts[0] != "trl_agentenvs" else "") + ".".join(folder.parts)
    found = set()
    for node in nodes(ast.parse(path.read_text(encoding="utf-8")), into_functions=into_functions):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            found.add(base)
            found.update(f"{base}.{alias.name}" for alias in node.names)
    return found


def top(names: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


def under(names: set[str], packages: set[str]) -> set[str]:
    return {name for name in names if any(name == p or name.startswith(f"{p}.") for p in packages)}


@pytest.mark.parametrize("path", [*CORE, *CHECK, *ALFWORLD], ids=label)
def test_environment_side_imports_the_standard_library_only(path: Path) -> None:
    assert top(imports(path, into_functions=False)) - sys.stdlib_module_names <= {"trl_agentenvs"}


@pytest.mark.parametrize("path", ALFWORLD, ids=label)
def test_environments_never_import_a_training_library(path: Path) -> None:
    assert top(imports(path)) & TRAINING_LIBRARIES == set()


@pytest.mark.parametrize("path", ALFWORLD, ids=label)
def test_environments_import_nothing_above_them(path: Path) -> None:
    assert under(imports(path), ABOVE_ENVIRONMENTS) == set()


@pytest.mark.parametrize("path", [*(p for p in CORE if p.stem not in {"cli", "__init__"}), *CHECK], ids=label)
def test_contract_imports_nothing_above_it(path: Path) -> None:
    assert under(imports(path), ABOVE_ENVIRONMENTS | {"trl_agentenvs.alfworld"}) == set()


@pytest.mark.parametrize("path", TRAINING, ids=label)
def test_training_imports_no_recipe(path: Path) -> None:
    assert under(imports(path), {"trl_agentenvs.recipes", "trl_agentenvs.cli", "recipes"}) == set()


@pytest.mark.parametrize("path", PATCHES, ids=label)
def test_patches_import_nothing_of_ours_but_themselves(path: Path) -> None:
    ours = under(imports(path), {"trl_agentenvs", "recipes", "patches"})
    assert ours - under(ours, {"trl_agentenvs.patches"}) - {"trl_agentenvs"} == set()


def test_a_stray_import_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    stray = tmp_path / "trl_agentenvs" / "alfworld" / "stray.py"
    stray.parent.mkdir(parents=True)
    stray.write_text("import json\nfrom ..training import launch\ndef f():\n    import torch.nn\n", encoding="utf-8")
    assert under(imports(stray), ABOVE_ENVIRONMENTS) == {"trl_agentenvs.training", "trl_agentenvs.training.launch"}
    assert "torch" in top(imports(stray))
    assert "torch" not in top(imports(stray, into_functions=False))
