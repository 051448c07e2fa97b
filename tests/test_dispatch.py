"""What reaches a tool, and what a model reads when nothing can."""

from __future__ import annotations

import enum
from typing import Any, Literal

import pytest

from trl_agentenvs import ToolEnv
from trl_agentenvs.coerce import CoercionError, coerce
from trl_agentenvs.dispatch import ToolSignature, parse_arguments, resolve_tool
from trl_agentenvs.errors import ToolError


def read(path: str, offset: int | None = None, limit: int = 10) -> None: ...


def write(path: str, content: str) -> None: ...


def bash(command: str) -> None: ...


class Runner(ToolEnv):
    """Runs nothing."""

    tool_aliases = {"bash": ("exec",)}  # noqa: RUF012

    def reset(self) -> str:
        return ""

    def bash(self, command: str) -> str:
        """Run a command.

        Args:
            command: The command.
        """
        return f"ran {command}"

    def list_files(self) -> str:
        """List files."""
        return ""

    def get_reward(self) -> float:
        return 0.0


def bind(func: Any, *args: Any, **kwargs: Any) -> Any:
    return ToolSignature(func.__name__, func).bind(args, kwargs)


def test_union_of_all_tools_parameters_reaches_each_tool_with_its_own():
    union = {"path": "a.py", "content": None, "command": "None"}
    bound = bind(read, **union)
    assert bound.arguments == {"path": "a.py"}
    assert bound.repairs == {"dropped_argument": 2}


def test_union_with_the_needed_one_missing_is_answered_in_one_sentence():
    with pytest.raises(ToolError) as error:
        bind(write, path="a.py", content=None, command="ls")
    assert str(error.value) == "write needs content; you gave path, content as null, command; it accepts path, content."


def test_nothing_given_names_what_is_accepted():
    with pytest.raises(
        ToolError, match=r"read needs path; you gave no arguments; it accepts path, offset \(optional\)"
    ):
        bind(read)


@pytest.mark.parametrize("alias", ["file_path", "filePath", "paths", "FILE", "file-path", "Path"])
def test_alias_is_renamed(alias):
    bound = bind(read, **{alias: "a.py"})
    assert bound.arguments == {"path": "a.py"}
    assert bound.repairs["renamed_argument"] == 1


def test_list_of_one_under_an_alias_is_its_item():
    assert bind(read, paths=["a.py"]).arguments == {"path": "a.py"}


def test_alias_that_contradicts_a_given_argument_is_refused():
    with pytest.raises(ToolError, match="path twice with different values"):
        bind(read, path="a.py", file_path="b.py")


def test_alias_that_repeats_a_given_argument_is_dropped():
    assert bind(read, path="a.py", file_path="a.py").arguments == {"path": "a.py"}


def test_two_contradicting_aliases_are_refused():
    with pytest.raises(ToolError, match="twice"):
        bind(read, file="a.py", filename="b.py")


def test_null_alias_does_not_stand_for_a_value():
    assert bind(read, path="a.py", file_path="None").arguments == {"path": "a.py"}


def test_declared_name_is_never_taken_for_an_alias():
    def move(path: str, file: str) -> None: ...

    assert bind(move, path="a", file="b").arguments == {"path": "a", "file": "b"}


def test_null_words_become_none_only_where_none_is_allowed():
    assert bind(read, path="None", offset="null").arguments == {"path": "None", "offset": None}


def test_none_for_a_defaulted_argument_leaves_the_default():
    bound = bind(read, path="a", limit=None)
    assert bound.arguments == {"path": "a"}
    assert bound.repairs == {"null_argument": 1}


@pytest.mark.parametrize("whole", ['{"command": "ls"}', {"command": "ls"}])
def test_arguments_given_as_one_object_are_unpacked(whole):
    assert bind(bash, whole).arguments == {"command": "ls"}


def test_json_text_that_is_the_value_itself_stays_text():
    assert bind(bash, command='{"command": "ls"}').arguments == {"command": '{"command": "ls"}'}


def test_positional_values_are_named():
    assert bind(write, "a.py", "x").arguments == {"path": "a.py", "content": "x"}


def test_too_many_positional_values_are_refused():
    with pytest.raises(ToolError, match="got 3 values"):
        bind(write, "a", "b", "c")


def test_all_wrong_values_are_named_in_one_sentence():
    with pytest.raises(ToolError) as error:
        bind(read, path="a", offset="soon", limit=[1])
    assert (
        str(error.value)
        == "read did not run: offset must be an integer, got 'soon'; limit must be an integer, got [1]."
    )


def test_shown_value_is_short():
    with pytest.raises(ToolError) as error:
        bind(read, path="a", limit="x" * 10**6)
    assert len(str(error.value)) < 200


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


Listed = enum.Enum("Listed", {"ONE": [1]})


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ("7", int, 7),
        (" 7 ", int, 7),
        ("7.0", int, 7),
        (7.0, int, 7),
        ("1e3", float, 1000.0),
        (7, str, "7"),
        (True, str, "true"),
        ({"a": 1}, str, '{"a": 1}'),
        ("true", bool, True),
        ("No", bool, False),
        (1, bool, True),
        ("[1, 2]", list[int], [1, 2]),
        (["1", 2], list[int], [1, 2]),
        ("a.py", list[str], ["a.py"]),
        ('{"a": "1"}', dict[str, int], {"a": 1}),
        ([1, "2"], tuple[int, int], (1, 2)),
        ("RED", Color, Color.RED),
        ("blue", Color, Color.BLUE),
        ("A", Literal["a", "b"], "a"),
        ("2", Literal[1, 2], 2),
        ("null", int | None, None),
        ("7", int | str, "7"),
        ("x", int | str, "x"),
        (["a"], str | list[str], ["a"]),
        (["a"], list[int] | list[str], ["a"]),
        ({"a": 1}, str | dict[str, int], {"a": 1}),
        (True, int | bool, True),
        (1, bool | int, 1),
        (7, float | str, 7.0),
        (None, Literal["a", None], None),
        ([1], Listed, Listed.ONE),
        ([1], Any, [1]),
    ],
)
def test_value_is_read_as_the_declared_type(value, kind, expected):
    coerced = coerce(value, kind)
    assert coerced == expected
    assert type(coerced) is type(expected)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("seven", int),
        (7.5, int),
        (True, int),
        ("inf", float),
        ("nan", float),
        ("9" * 5000, int),
        ("maybe", bool),
        ("{", dict),
        ("[" * 100_000, list[int]),
        ("[1, 2, 3]", tuple[int, int]),
        ("green", Color),
        ("c", Literal["a", "b"]),
        (deep(), Literal["a", "b"]),
        (deep(), bool),
        (deep(), str),
        (None, str),
        (None, int),
    ],
)
def test_value_without_one_reading_is_refused(value, kind):
    with pytest.raises(CoercionError):
        coerce(value, kind)


def test_unknown_tool_lists_the_tools_there_are():
    with pytest.raises(ToolError) as error:
        resolve_tool("raed", ["write", "read"])
    assert str(error.value) == "There is no tool 'raed'; the tools are read, write."


@pytest.mark.parametrize("name", ["read", "Read", " read ", "functions.read"])
def test_tool_name_that_means_one_tool_is_resolved(name):
    assert resolve_tool(name, ["read", "write"]) == "read"


@pytest.mark.parametrize("name", ["exec", "Exec", " exec ", "functions.exec"])
def test_alias_of_a_tool_is_resolved(name):
    assert resolve_tool(name, ["bash", "read"], {"bash": ("exec", "run")}) == "bash"


def test_tool_is_never_taken_for_an_alias_of_another():
    assert resolve_tool("read", ["bash", "read"], {"bash": ("read",)}) == "read"


def test_alias_of_a_tool_that_is_not_there_is_unknown():
    with pytest.raises(ToolError, match="the tools are read"):
        resolve_tool("exec", ["read"], {"bash": ("exec",)})


def test_alias_of_a_tool_calls_it_and_counts_as_a_repair():
    env = Runner()
    env.reset()
    assert env._call_tool("exec", {"cmd": "ls"}) == "ran ls"
    assert env._metrics()["repairs/renamed_tool"] == 1


@pytest.mark.parametrize(
    ("aliases", "message"),
    [
        ({"bash": ("list_files",)}, "the alias list_files of bash already means list_files"),
        ({"bash": ("reset",)}, "already means reset"),
        ({"bash": ("go",), "list_files": ("go",)}, "the alias go of list_files already means bash"),
        ({"bash": "go"}, r"write \('go',\)"),
        ({"bsh": ("go",)}, "bsh, which is no tool"),
        ({"reset": ("restart",)}, "reset, which is no tool"),
        ({"bash": ("Exec",)}, "the alias 'Exec' of bash is looked up as 'exec'; write that"),
        ({"bash": ("functions.exec",)}, "looked up as 'exec'; write that"),
    ],
)
def test_alias_of_a_tool_that_means_no_single_tool_is_refused_with_the_class(aliases, message):
    with pytest.raises(TypeError, match=message):
        type("Faulty", (Runner,), {"tool_aliases": aliases})


def test_tool_that_takes_the_name_of_an_inherited_alias_is_refused():
    def exec_(self: Runner) -> str:
        """Run."""
        return ""

    exec_.__name__ = "exec"
    with pytest.raises(TypeError, match="the alias exec of bash already means exec"):
        type("Faulty", (Runner,), {"exec": exec_})


@pytest.mark.parametrize("arguments", ["ls -la", "[1]", 3, ["a"], '{"command": '])
def test_arguments_that_are_no_object_are_refused(arguments):
    with pytest.raises(ToolError, match="must be one JSON object"):
        parse_arguments("bash", arguments)


@pytest.mark.parametrize("arguments", [None, {}, "{}", "null"])
def test_absent_arguments_are_empty(arguments):
    assert parse_arguments("bash", arguments) == {}


def test_json_string_may_hold_raw_newlines():
    assert parse_arguments("bash", '{"command": "a\nb"}') == {"command": "a\nb"}


@pytest.mark.parametrize("func", [bash, read])
def test_deeply_nested_value_is_refused_in_words(func):
    with pytest.raises(ToolError, match="did not run"):
        bind(func, **dict.fromkeys(ToolSignature(func.__name__, func).names, deep()))
