"""What people install: the wheel holds one top-level package, imports from anywhere, and imports for free."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
IMPORT_LIMIT_S = 0.3  # of the processor, so that a busy machine does not count
HEAVY = {"torch", "trl", "transformers", "datasets", "numpy", "peft", "accelerate", "vllm", "pandas", "pyarrow"}

# Runs in a child process: seconds that the import takes by itself, then every top-level module it brought in.
IMPORT_PROBE = """
import sys, time
before = set(sys.modules)
start = time.process_time()
import {module}
print(time.process_time() - start)
print(*sorted({{name.partition(".")[0] for name in set(sys.modules) - before}}))
print({module}.__file__)
"""


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command without network settings of the caller getting in the way, and return what it printed."""
    env = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "PYTHONHOME"}} | {"PIP_NO_INDEX": "1"}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(kind: str, source: Path, out: Path) -> Path:
    """Build one distribution with the tools of this environment (no network) and return its path."""
    run(sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "--outdir", out, source, cwd=out)
    return max(out.iterdir(), key=lambda path: path.stat().st_mtime_ns)


def probe_import(python: str | Path, module: str, cwd: Path) -> tuple[float, set[str], str]:
    """Import a module in a fresh interpreter: CPU seconds, top-level modules loaded, file it came from."""
    seconds, names, file = run(python, "-c", IMPORT_PROBE.format(module=module), cwd=cwd).splitlines()
    return float(seconds), set(names.split()), file


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a distribution is made from, since setuptools writes into the folder it builds."""
    copy = tmp_path_factory.mktemp("source")
    skip = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("trl_agentenvs", "patches", "recipes", "examples", "tests", "docs"):
        shutil.copytree(ROOT / name, copy / name, ignore=skip)
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "Makefile"):
        shutil.copy2(ROOT / name, copy / name)
    return copy


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", source, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("sdist", source, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def clean_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a virtual environment that holds the wheel and nothing else."""
    home = tmp_path_factory.mktemp("clean")
    venv.create(home, with_pip=False)
    python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", wheel, cwd=home)
    return python


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_wheel_has_one_top_level_package(wheel: Path) -> None:
    top = {name.partition("/")[0] for name in names_in(wheel)}
    version = PYPROJECT["project"]["version"]
    assert top == {"trl_agentenvs", f"trl_agentenvs-{version}.dist-info"}


@pytest.mark.parametrize(
    ("folder", "inside"),
    [("trl_agentenvs", "trl_agentenvs"), ("patches", "trl_agentenvs/patches"), ("recipes", "trl_agentenvs/recipes")],
)
def test_wheel_has_every_module_of_the_checkout(wheel: Path, folder: str, inside: str) -> None:
    modules = {f"{inside}/{path.relative_to(ROOT / folder).as_posix()}" for path in (ROOT / folder).rglob("*.py")}
    assert modules
    assert modules <= names_in(wheel)


def test_wheel_has_the_data_that_its_modules_read(wheel: Path) -> None:
    assert "trl_agentenvs/alfworld/whereabouts.json" in names_in(wheel)


def test_wheel_tells_type_checkers_that_it_is_typed(wheel: Path) -> None:
    assert "trl_agentenvs/py.typed" in names_in(wheel)


def test_wheel_carries_the_licence(wheel: Path) -> None:
    assert any(name.endswith("LICENSE") for name in names_in(wheel))


def test_wheel_requires_nothing_without_an_extra(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = archive.read(name).decode().splitlines()
    required = [line for line in lines if line.startswith("Requires-Dist:")]
    assert required
    assert [line for line in required if "extra ==" not in line] == []


def test_sdist_builds_the_same_wheel(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    shutil.unpack_archive(sdist, tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    (tmp_path / "again").mkdir()
    again = build("wheel", unpacked, tmp_path / "again")
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(again) as two:
        assert {i.filename: i.CRC for i in one.infolist()} == {i.filename: i.CRC for i in two.infolist()}


@pytest.mark.parametrize("module", ["trl_agentenvs", "trl_agentenvs.patches", "trl_agentenvs.recipes"])
@pytest.mark.parametrize("from_checkout", [False, True], ids=["anywhere", "checkout"])
def test_wheel_imports_in_a_clean_environment(
    clean_python: Path, tmp_path: Path, module: str, from_checkout: bool
) -> None:
    _, _, file = probe_import(clean_python, module, ROOT if from_checkout else tmp_path)
    # `python -c` puts the current folder first: in the checkout the checkout wins, as a whole.
    assert Path(file).is_relative_to(ROOT if from_checkout else clean_python.parent.parent)


@pytest.mark.parametrize(
    ("module", "folder"), [("trl_agentenvs.patches", "patches"), ("trl_agentenvs.recipes", "recipes")]
)
def test_editable_install_finds_the_mapped_folders(tmp_path: Path, module: str, folder: str) -> None:
    if not any(d.read_text("direct_url.json") for d in importlib.metadata.distributions(name="trl_agentenvs")):
        pytest.skip("not installed in editable mode; `make venv` does")
    _, _, file = probe_import(sys.executable, module, tmp_path)
    assert Path(file) == ROOT / folder / "__init__.py"


def test_environment_plays_in_a_clean_environment(clean_python: Path, tmp_path: Path) -> None:
    code = (
        "from trl_agentenvs import ALFWorldEnv\n"
        "env = ALFWorldEnv()\n"
        "print(len(env.reset(game='generated:pick_and_place_simple:0')) > 0, env.act(command='look') != '')"
    )
    assert run(clean_python, "-c", code, cwd=tmp_path).split() == ["True", "True"]


def test_command_is_installed(clean_python: Path, tmp_path: Path) -> None:
    assert "check" in run(clean_python.with_name("trl-agentenvs"), "--help", cwd=tmp_path)


@pytest.mark.parametrize("module", ["trl_agentenvs", "trl_agentenvs.patches", "trl_agentenvs.cli"])
def test_import_loads_the_standard_library_only(module: str) -> None:
    _, loaded, _ = probe_import(sys.executable, module, ROOT)
    assert loaded & HEAVY == set()
    foreign = {name for name in loaded - sys.stdlib_module_names if not name.startswith("_")}
    assert foreign == {"trl_agentenvs"}


@pytest.mark.parametrize("module", ["trl_agentenvs", "trl_agentenvs.patches"])
def test_import_is_fast(module: str) -> None:
    assert min(probe_import(sys.executable, module, ROOT)[0] for _ in range(5)) < IMPORT_LIMIT_S


def test_version_is_the_one_of_the_package() -> None:
    printed = run(sys.executable, "-c", "import trl_agentenvs; print(trl_agentenvs.__version__)", cwd=ROOT)
    assert printed.strip() == PYPROJECT["project"]["version"]
