from __future__ import annotations

import time

import pytest

from trl_agentenvs.alfworld.generate import TASK_TYPES, generate
from trl_agentenvs.alfworld.reading import Task, read_closed, read_contents, read_intro, read_task

VERBS = {"pick_clean_then_place_in_recep": "clean", "pick_heat_then_place_in_recep": "heat",
         "pick_cool_then_place_in_recep": "cool"}  # fmt: skip


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_every_task_sentence_of_a_type_is_read_as_that_type(task_type: str) -> None:
    for seed in range(40):
        game = generate(task_type, seed)
        task = read_task(game.task)
        assert task is not None
        assert task.verb == VERBS.get(task_type, "")
        assert task.count == (2 if task_type == "pick_two_obj_and_place" else 1)
        assert bool(task.lamp) == (task_type == "look_at_obj_in_light") != bool(task.parent)
        assert task.target + "type" in game.object_type.values()
        if task.parent:
            assert task.parent + "type" in game.receptacle_type.values()


@pytest.mark.parametrize(
    ("sentence", "task"),
    [
        ("put a mug in desk", Task("mug", parent="desk")),
        ("put some soapbar on toilet", Task("soapbar", parent="toilet")),
        ("put a hot egg in fridge", Task("egg", parent="fridge", verb="heat")),
        ("cool some pan and put it in stoveburner", Task("pan", parent="stoveburner", verb="cool")),
        ("find two pen and put them in drawer", Task("pen", parent="drawer", count=2)),
        ("look at cd under the desklamp", Task("cd", lamp="desklamp")),
        ("put a mug in desk and dance", None),
        ("put a mug", None),
        ("PUT A MUG IN DESK", None),
        ("", None),
    ],
)
def test_task_sentences(sentence: str, task: Task | None) -> None:
    assert read_task(sentence) == task


def test_an_intro_gives_receptacles_in_their_order_and_the_task() -> None:
    game = generate("pick_two_obj_and_place", 9)
    assert read_intro(game.intro) == ([game.name_of[name] for name in sorted(game.location_of)], game.task)


@pytest.mark.parametrize(
    "text", ["", "Your task is to: win.", "you see a desk 1.\n\nYour task is to: win.", "\0" * 100]
)
def test_a_text_that_is_no_intro_gives_none(text: str) -> None:
    assert read_intro(text) is None


def test_what_a_receptacle_shows_is_read_from_all_three_forms() -> None:
    assert read_contents("You arrive at desk 1. On the desk 1, you see a pen 2, and a mug 1.") == {
        "desk 1": ["pen 2", "mug 1"]
    }
    assert read_contents("You open the safe 1. The safe 1 is open. In it, you see nothing.") == {"safe 1": []}
    assert read_contents("You arrive at loc 12. The drawer 3 is closed.") == {}
    assert read_closed("You arrive at loc 12. The drawer 3 is closed.") == ["drawer 3"]


@pytest.mark.parametrize("text", ["Looking quickly around you, you see " * 20_000, "Your task is to: " * 60_000,
                                  "On the desk 1" * 70_000, "a" * 1_000_000])  # fmt: skip
def test_long_senseless_texts_take_no_long_time(text: str) -> None:
    started = time.process_time()
    read_intro(text), read_task(text), read_contents(text), read_closed(text)
    assert time.process_time() - started < 3
