"""Rows that a trainer gets are the rows that were written."""

from __future__ import annotations

import pytest

from trl_agentenvs.rows import build_dataset

datasets = pytest.importorskip("datasets")


def test_prompt_is_conversational_and_columns_are_kept():
    rows = build_dataset([{"game": "a", "n": 1}, {"game": "b", "n": None}], "System.", "User.")
    assert rows[1] == {
        "prompt": [{"role": "system", "content": "System."}, {"role": "user", "content": "User."}],
        "game": "b",
        "n": None,
    }


def test_without_a_system_prompt_there_is_no_system_message():
    assert build_dataset([{"a": 1}])[0]["prompt"] == [{"role": "user", "content": ""}]


@pytest.mark.parametrize("value", [{"a": 1}, [1], ("a",), b"x"])
def test_nested_value_is_refused_with_the_way_out(value):
    with pytest.raises(ValueError, match=r"store them as JSON strings \(json.dumps\)"):
        build_dataset([{"x": value}])


@pytest.mark.parametrize("value", [10**30, "\ud83d"])
def test_value_that_arrow_cannot_hold_is_refused_with_its_limits(value):
    with pytest.raises(ValueError, match="expected integers of 64 bits and text without half characters"):
        build_dataset([{"x": value}])


def test_mixed_types_are_refused():
    with pytest.raises(ValueError, match="column 'x' holds int, str"):
        build_dataset([{"x": 1}, {"x": "1"}])


def test_rows_with_other_columns_are_refused():
    with pytest.raises(ValueError, match="row 1 has columns"):
        build_dataset([{"x": 1}, {"y": 1}])


def test_no_rows_is_an_error():
    with pytest.raises(ValueError, match="got no rows"):
        build_dataset([])
