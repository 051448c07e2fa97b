from __future__ import annotations

import time

import pytest

from trl_agentenvs.alfworld.pddl import MAX_DEPTH, PddlSyntaxError, parse, typed_names


def test_nesting_comments_and_case_are_read() -> None:
    assert parse("(define ; a (comment\n (Domain ALFRED)\n\t(:x (not (= ?A ?b))))") == [
        "define", ["domain", "alfred"], [":x", ["not", ["=", "?a", "?b"]]]]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(a (b c)", "1 opening parentheses are never closed"),
        ("(a (b (c", "3 opening parentheses are never closed"),
        ("(a b))", "a closing parenthesis has no opening one"),
        (")", "a closing parenthesis has no opening one"),
        ("", "found 0 items"),
        ("; only a comment", "found 0 items"),
        ("name", "found 1 items"),
        ("(a) (b)", "found 2 items"),
        ("(" * (MAX_DEPTH + 1) + ")" * (MAX_DEPTH + 1), "nest deeper"),
        ("(" * 1_000_000, "nest deeper"),
    ],
)
def test_what_is_not_one_balanced_expression_is_refused_with_its_reason(text: str, reason: str) -> None:
    with pytest.raises(PddlSyntaxError, match=reason):
        parse(text)


def test_a_megabyte_is_read_in_linear_time() -> None:
    started = time.process_time()
    assert len(parse("(" + "(a b) " * 170_000 + ")")) == 170_000
    assert time.process_time() - started < 3


def test_a_typed_list_gives_each_name_the_kind_that_follows() -> None:
    assert typed_names(["?a", "?b", "-", "agent", "?l", "-", "location"]) == {
        "?a": "agent", "?b": "agent", "?l": "location"}  # fmt: skip
    assert typed_names([]) == {}


@pytest.mark.parametrize("tokens", [["a"], ["a", "-"], ["-", "kind"], ["a", "-", "kind", "b"], [["a"], "-", "kind"],
                                    ["a", "-", ["kind"]]])  # fmt: skip
def test_a_faulty_typed_list_is_refused(tokens: list[object]) -> None:
    with pytest.raises(PddlSyntaxError):
        typed_names(tokens)  # type: ignore[arg-type]
