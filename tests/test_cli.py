"""`trl-agentenvs`: right input does its work, wrong input gets one sentence and exit code 2, nothing ends noisily."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from trl_agentenvs import __version__, check, cli
from trl_agentenvs.check.command import read_rows
from trl_agentenvs.registry import ENVIRONMENTS, load_factory

ENVIRONMENT = '''
from trl_agentenvs import ToolEnv

class WordEnv(ToolEnv):
    def reset(self, word: str = "a") -> str:
        return f"Say {word}."

    def say(self, word: str) -> str:
        """Say a word.

        Args:
            word: The word.
        """
        return "said"

    def get_reward(self) -> float | None:
        return 1.0

class Scored(WordEnv):
    def get_reward(self) -> float | None:
        return "much"

    @classmethod
    def _rows(cls, split, n, seed):
        if split != "train":
            raise ValueError(f"got the split {split!r}; expected train")
        return [{"word": str(i + seed)} for i in range(n)]

not_callable = 3
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "word_env.py").write_text(ENVIRONMENT, encoding="utf-8")
    (tmp_path / "rows.jsonl").write_text('{"word": "a"}\n\n{"word": "b\u2028c"}\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(check, "check_other_process", lambda subject: ())  # a child process takes its time
    yield tmp_path
    sys.modules.pop("word_env", None)


def run(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trl_agentenvs.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)


def complaint(capsys, *arguments: str) -> str:
    """The one sentence on stderr with which wrong input is refused."""
    assert cli.main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.isprintable()
    assert line.startswith("trl-agentenvs: ")
    return line.removeprefix("trl-agentenvs: ")


# The program


def test_version(repo):
    done = run("--version", cwd=repo)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"trl-agentenvs {__version__}\n", "")


OF_ENVIRONMENTS = [(command, name) for name, registered in ENVIRONMENTS.items() for command in registered.commands]


@pytest.mark.parametrize("arguments", [(), *((name,) for name in cli.COMMANDS), *OF_ENVIRONMENTS])
def test_help_exits_with_0(arguments, capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main([*arguments, "--help"])
    assert " ".join(["usage: trl-agentenvs", *arguments]) in capsys.readouterr().out


def test_every_subcommand_of_an_environment_is_one_of_the_command():
    assert {command for command, _ in OF_ENVIRONMENTS} <= set(cli.COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "the following arguments are required: command; see trl-agentenvs --help"),
        (["chek"], "invalid choice: 'chek'"),
        (["play", "chess"], "invalid choice: 'chess'"),
        (["trace"], "required: file; see trl-agentenvs trace --help"),
        (["trace", "no\nsuch\x1b[31m file"], "No such file or directory"),
        (["trace", "."], "Is a directory"),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_code_2(arguments, words, capsys, folder):
    assert words in complaint(capsys, *arguments)


def test_nothing_heavy_is_imported_for_a_trace(repo, tmp_path):
    trace = tmp_path / "rollouts.jsonl"
    trace.write_text("", encoding="utf-8")
    code = (
        "import sys; from trl_agentenvs.cli import main; main(['trace', sys.argv[1]]);"
        "print({'torch', 'transformers', 'datasets', 'trl_agentenvs.alfworld'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(trace)], cwd=repo, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "set()"


def test_closed_pipe_ends_quietly(repo, tmp_path):
    trace = tmp_path / "rollouts.jsonl"
    events = [{"event": "start", "rollout": f"{i}", "env": f"Env{i}", "row": "", "time": 0} for i in range(5000)]
    trace.write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
    command = [sys.executable, "-m", "trl_agentenvs.cli", "trace", str(trace)]
    with subprocess.Popen(command, cwd=repo, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout
        assert child.stderr
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait(timeout=60) == 0


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_stream_that_was_closed_at_the_start_is_no_fault(closed, repo):
    done = run("play", "alfworld", "--seed", "1", cwd=repo, input="look\n", preexec_fn=lambda: os.close(closed))
    assert (done.returncode, done.stderr) == (0, "")


def take_interrupts():
    """Undo, in a child, that whoever started the tests in the background made them ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_ends_quietly(repo):
    # Its game goes on for longer than there are commands, so that it waits for more when it is interrupted.
    command = [sys.executable, "-m", "trl_agentenvs.cli", "play", "alfworld", "--seed", "1", "--max-steps", "9999"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=repo, text=True, preexec_fn=take_interrupts, **pipes) as child:
        child.stdin.write("look\n" * 2000)  # fills the buffer of its output, so that it is known to run
        child.stdin.flush()
        child.stdout.readline()
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=60)
    assert errors == ""
    assert child.returncode == cli.INTERRUPTED


# check


def test_ctrl_c_while_an_async_tool_is_awaited_ends_quietly(repo, tmp_path):
    code = (
        "import asyncio\n"
        "class Slow:\n"
        "    def reset(self, **row): return ''\n"
        "    async def act(self) -> str:\n"
        '        """Act."""\n'
        "        print('acting', flush=True)\n"
        "        await asyncio.sleep(60)\n"
    )
    (tmp_path / "slow_env.py").write_text(code, encoding="utf-8")
    (tmp_path / "rows.jsonl").write_text("{}", encoding="utf-8")
    command = [sys.executable, "-m", "trl_agentenvs.cli", "check", f"{tmp_path}/slow_env.py:Slow"]
    command += ["--rows", str(tmp_path / "rows.jsonl")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=repo, preexec_fn=take_interrupts, **pipes) as child:
        assert child.stdout.readline() == "acting\n"
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=60)
    assert (child.returncode, errors) == (cli.INTERRUPTED, "")


def test_environment_that_keeps_the_contract_exits_with_0(folder, capsys):
    assert cli.main(["check", "word_env:WordEnv", "--rows", "rows.jsonl"]) == 0
    assert "word_env:WordEnv keeps the contract (rules: 24, rows: 2" in capsys.readouterr().out


def test_findings_exit_with_1_and_are_printed(folder, capsys):
    assert cli.main(["check", "word_env.py:Scored"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("reward-value: get_reward ")
    assert "word_env.py:Scored has findings: " in out


def test_environment_of_this_package_is_found_by_its_name(folder, capsys):
    assert cli.main(["check", "alfworld", "--n", "1"]) == 0
    assert "alfworld keeps the contract" in capsys.readouterr().out


def test_relative_path_to_a_file_in_another_folder(folder, capsys):
    (folder / "deep").mkdir()
    (folder / "deep" / "other_env.py").write_text("from word_env import WordEnv\n", encoding="utf-8")
    assert cli.main(["check", "deep/other_env.py:WordEnv", "--rows", "rows.jsonl"]) == 0
    del sys.modules["other_env"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["word_env"], "got the environment 'word_env'; expected alfworld, module:Class or path/to/file.py:Class"),
        ([":WordEnv"], "expected alfworld, module:Class"),
        (["alfwrld"], "did you mean alfworld?"),
        (["no_such_module:WordEnv"], "no_such_module cannot be imported: ModuleNotFoundError"),
        (["no_such_file.py:WordEnv"], "there is none"),
        (["word_env:Wort"], "word_env has no class or factory 'Wort'; it has WordEnv, Scored"),
        (["word_env:not_callable"], "no class or factory 'not_callable'"),
        (["word_env:WordEnv"], "WordEnv has no rows of its own; give some with --rows FILE"),
        (["word_env:Scored", "--split", "test"], "got the split 'test'; expected train"),
        (["word_env:Scored", "--n", "0"], "expected an integer of at least 1"),
        (["word_env:Scored", "--n", "x"], "expected an integer of at least 1"),
        (["word_env:Scored", "--rows", "none.jsonl"], "none.jsonl: No such file or directory"),
    ],
)
def test_wrong_environment_or_rows_are_one_sentence(arguments, words, folder, capsys):
    assert words in complaint(capsys, "check", *arguments)


@pytest.mark.parametrize(
    "code", ["import sys; sys.exit(0)", "raise KeyError('x')", "def f(:", "import no_such_module", "1 / 0"]
)
def test_module_that_fails_on_import_is_one_sentence(code, folder, capsys):
    (folder / "broken_env.py").write_text(code, encoding="utf-8")
    assert "broken_env.py cannot be imported: " in complaint(capsys, "check", "broken_env.py:Env")


def test_file_that_hides_a_library_is_refused(folder, capsys):
    (folder / "json.py").write_text(ENVIRONMENT, encoding="utf-8")
    assert "under the name 'json', which is taken; rename the file" in complaint(capsys, "check", "json.py:WordEnv")


@pytest.mark.parametrize("content", ["", "\n", "[1]\n", '"row"\n', '{"word": ', "{}\nnull\n", "[" * 10**5, "\0"])
def test_rows_that_are_no_objects_are_refused_with_their_line(content, tmp_path):
    (tmp_path / "rows.jsonl").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=r"rows\.jsonl(, line \d: got .*; expected one| holds no rows)"):
        read_rows(tmp_path / "rows.jsonl")


def test_rows_keep_line_separators_inside_strings(folder):
    assert read_rows(Path("rows.jsonl")) == [{"word": "a"}, {"word": "b\u2028c"}]


def test_same_file_can_be_loaded_twice(folder):
    assert load_factory("word_env.py:WordEnv") is load_factory("./word_env.py:WordEnv")
