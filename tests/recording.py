"""Running `trl-agentenvs demos` in tests, and reading what it wrote."""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path

from trl_agentenvs import cli
from trl_agentenvs.alfworld import demos
from trl_agentenvs.alfworld.demos import shortest_demo
from trl_agentenvs.training import demos_command

COMMAND = ("demos", "alfworld")


def run(out: Path, *arguments: str) -> int:
    """The exit code of a recording."""
    return cli.main([*COMMAND, "--out", str(out), *arguments])


@functools.cache
def twelve() -> bytes:
    """What `--count 12` writes if nothing interrupts it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "demos.jsonl"
        assert demos_command.main(["--count", "12", "--out", str(path)], "record") == 0
        return path.read_bytes()


def rows(out: Path) -> list[dict]:
    """The rows of a file."""
    return [json.loads(line) for line in out.read_bytes().splitlines()]


def games(out: Path) -> list[str]:
    """The games of a file."""
    return [row["game"] for row in rows(out)]


def meta(out: Path) -> dict:
    """What stands beside a file."""
    return json.loads(out.with_name(out.name + ".meta.json").read_text(encoding="utf-8"))


def complaint(capsys, out: Path, *arguments: str) -> str:
    """The one sentence on stderr with which wrong input is refused."""
    assert run(out, *arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    return line.removeprefix("trl-agentenvs: ")


def lose(monkeypatch, lost: set[str], reason: str = "cannot be won") -> None:
    """Let some games give no demonstration."""

    def attempt(make_env, game: str, **options) -> demos.Attempt:
        return demos.Attempt(None, [reason]) if game in lost else shortest_demo(make_env, game, **options)

    monkeypatch.setattr(demos_command, "shortest_demo", attempt)
