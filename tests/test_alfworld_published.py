"""The step-wise prompts and answers of published work, and the tool form under the same limits."""

from __future__ import annotations

import re

import pytest

from trl_agentenvs import ALFWorldEnv, StopReason
from trl_agentenvs.alfworld.data import TASK_TYPES, load
from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.expert import Expert
from trl_agentenvs.alfworld.published import MAX_STEPS, PUBLISHED_OPTIONS, StepwiseEpisode, read_answer

GAME = "generated:pick_and_place_simple:3"
ALL = (
    "{task_description}|{step_count}|{history_length}|{action_history}|{current_step}|{current_observation}|"
    "{admissible_actions}"
)
ROOM = "You are in the middle of a room. Looking quickly around you, you see nothing."


def said(command: str) -> str:
    return f"<think>so</think><action>{command}</action>"


def filled(episode: StepwiseEpisode) -> dict[str, str]:
    """What stands at each placeholder of the present prompt, which must be made with `ALL`."""
    names = [name.strip("{}") for name in ALL.split("|")]
    return dict(zip(names, episode.prompt().split("|"), strict=True))


def all_filled(game: str = GAME, history_length: int = 2) -> StepwiseEpisode:
    return StepwiseEpisode(game, template=ALL, template_no_history=ALL, history_length=history_length)


# The prompt.


def test_first_prompt_shows_the_game_as_the_game_shows_itself() -> None:
    engine = Engine(load(GAME))
    episode = StepwiseEpisode(GAME, template_no_history="{current_observation}")
    assert episode.prompt() == engine.reset()
    assert episode.prompt().startswith("-= Welcome to TextWorld, ALFRED! =-\n\n")


def test_task_keeps_its_final_dot() -> None:
    assert filled(all_filled())["task_description"] == load(GAME).task + "."


def test_actions_are_quoted_one_a_line_and_hide_help() -> None:
    possible = Engine(load(GAME)).admissible()
    assert "help" in possible
    possible.remove("help")
    listed = filled(all_filled())["admissible_actions"]
    assert listed == "'" + "'\n '".join(possible) + "'"


def test_prompt_shows_what_is_possible_after_the_last_action() -> None:
    engine, episode = Engine(load(GAME)), all_filled()
    engine.step("go to dresser 1")
    episode.answer(said("go to dresser 1"))
    assert "'examine dresser 1'" in episode.prompt()
    assert filled(episode)["admissible_actions"].count("\n") + 2 == len(engine.admissible())  # all but help


def test_history_pairs_each_action_with_the_observation_before_it() -> None:
    episode = all_filled()
    for command in ("look", "inventory", "bogus", "look"):
        episode.answer(said(command))
    assert filled(episode)["action_history"] == (
        "[Observation 3: 'You are not carrying anything.', Action 3: 'bogus']\n"
        "[Observation 4: 'Nothing happens.', Action 4: 'look']"
    )
    assert filled(episode)["current_observation"] == ROOM


def test_first_entry_of_the_history_is_the_intro() -> None:
    episode = all_filled()
    intro = filled(episode)["current_observation"]
    episode.answer(said("look"))
    assert filled(episode)["action_history"] == f"[Observation 1: '{intro}', Action 1: 'look']"


@pytest.mark.parametrize(("steps", "shown"), [(0, 0), (1, 1), (2, 2), (3, 3), (4, 3)])
def test_counts_tell_steps_taken_steps_shown_and_the_present_step(steps: int, shown: int) -> None:
    episode = all_filled(history_length=3)
    for _ in range(steps):
        episode.answer(said("look"))
    values = filled(episode)
    assert (values["step_count"], values["history_length"], values["current_step"]) == (
        str(steps), str(shown), str(steps + 1))  # fmt: skip


def test_later_prompts_use_the_template_with_history() -> None:
    episode = StepwiseEpisode(GAME, template="later", template_no_history="first")
    prompts = [episode.prompt()]
    episode.answer(said("look"))
    assert [*prompts, episode.prompt()] == ["first", "later"]


def test_without_history_all_prompts_use_the_other_template() -> None:
    episode = StepwiseEpisode(GAME, template="later", template_no_history="first", history_length=0)
    episode.answer(said("look"))
    assert episode.prompt() == "first"


def test_braces_in_an_observation_or_answer_stay() -> None:
    episode = all_filled()
    episode.answer(said("{step_count} {0}"))
    assert "Action 1: '{step_count} {0}'" in episode.prompt()


def test_default_prompts_hold_every_fact() -> None:
    episode = StepwiseEpisode(GAME)
    assert load(GAME).task in episode.prompt()
    assert "'go to dresser 1'" in episode.prompt()
    for _ in range(3):
        episode.answer(said("inventory"))
    for fact in (
        load(GAME).task, "Steps taken so far: 3.", "last 2 ", "Action 3: 'inventory'", "step 4",
        "not carrying anything.\n", "'go to dresser 1'", "<think>", "</think>", "<action>", "</action>",
    ):  # fmt: skip
        assert fact in episode.prompt()


def test_prompt_does_not_change_until_an_answer_is_given() -> None:
    episode = StepwiseEpisode(GAME)
    assert episode.prompt() == episode.prompt()


def test_braces_of_a_template_stay_where_they_are_doubled() -> None:
    episode = StepwiseEpisode(GAME, template_no_history='At {current_step}: {{"action": "..."}}')
    assert episode.prompt() == 'At 1: {"action": "..."}'


@pytest.mark.parametrize(
    ("template", "named"),
    [
        ("{retrieved_memories}", "retrieved_memories"),
        ('{"action": "look"}', "action"),
        ('{"action"', "expected '}'"),
        ("}", "Single '}'"),
        ("{}", "index 0"),
        ("{task_description:d}", "format code 'd'"),
        ("{task_description.text}", "text"),
        ("{step_count:{width}}", "width"),
    ],
)
@pytest.mark.parametrize("which", ["template", "template_no_history"])
def test_template_that_cannot_be_filled_in_is_refused_at_once(template: str, named: str, which: str) -> None:
    with pytest.raises(ValueError, match=rf"{re.escape(named)}.*but task_description.*\{{\{{ and \}}\}}"):
        StepwiseEpisode(GAME, **{which: template})


def test_negative_history_is_refused() -> None:
    with pytest.raises(ValueError, match="history_length=-1; expected 0 or more"):
        StepwiseEpisode(GAME, history_length=-1)


# The answer.


@pytest.mark.parametrize(
    ("text", "command", "valid"),
    [
        ("<think>a</think><action>look</action>", "look", True),
        ("<think>a</think>\n<action>\n Go To Fridge 1 \n</action> bye", "go to fridge 1", True),
        ("<THINK>a</THINK><ACTION>look</ACTION>", "look", False),
        ("<think>a</think><ACTION>LOOK</ACTION>", "look", True),
        ("<action>look</action>", "look", False),
        ("<think>a<action>look</action>", "look", False),
        ("</think><think><action>look</action>", "look", True),
        ("<think>a</think><action>look</action><action>inventory</action>", "look", True),
        ("<think>I write <action> soon</think><action>look</action>", "soon</think><action>look", True),
        ("<think>a</think></action><action>look", "", True),
        ("<think>a</think><action></action>", "", True),
        ("<think>\u770b</think><action>look</action>", "look", False),
        ("<think>\u00e9\u3042\U0001f600</think><action>look</action>", "look", True),
        ("<think>a</think>look", "<think>a</think>look", False),
        ("Thus <think>a</think> <action>look", " <think>a</think> <action>look", False),
        ("I Say: Go To The Very Large Fridge 1 Now ", "o the very large fridge 1 now ", False),
        ("", "", False),
    ],
)
def test_answer_is_read_as_published_work_reads_it(text: str, command: str, valid: bool) -> None:
    assert read_answer(text) == (command, valid)


def test_huge_answer_is_read() -> None:
    assert read_answer("x" * 1_000_000) == ("x" * 30, False)


def test_answer_tells_what_came_of_it() -> None:
    answer = StepwiseEpisode(GAME).answer(said("INVENTORY"))
    assert (answer.command, answer.valid, answer.observation) == ("inventory", True, "You are not carrying anything.")
    assert (answer.done, answer.won) == (False, False)


def test_well_formed_answer_is_valid_though_the_game_refuses_it() -> None:
    answer = StepwiseEpisode(GAME).answer(said("fly to moon 1"))
    assert (answer.valid, answer.observation) == (True, "Nothing happens.")


def test_malformed_answer_costs_a_step() -> None:
    episode = StepwiseEpisode(GAME)
    assert episode.answer("look").observation == ROOM  # the end of the text is the command, here a possible one
    assert not episode.answer("I would look around").valid
    assert episode.steps == 2


def test_episode_ends_after_fifty_steps() -> None:
    episode = StepwiseEpisode(GAME)
    done = [episode.answer(said("look")).done for _ in range(MAX_STEPS)]
    assert done == [False] * 49 + [True]
    assert (episode.done, episode.won) == (True, False)


def test_answer_after_the_end_is_refused() -> None:
    episode = StepwiseEpisode(GAME)
    for command in load(GAME).walkthrough:
        episode.answer(said(command))
    with pytest.raises(RuntimeError, match=f"over after {len(load(GAME).walkthrough)} steps"):
        episode.answer(said("look"))


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_expert_wins_through_prompts_and_answers(task_type: str) -> None:
    episode = StepwiseEpisode(f"generated:{task_type}:1003")
    observation = episode.prompt()
    expert = Expert(observation)
    while not episode.done:
        command = expert.act(observation)
        observation = episode.answer(f"<think>It is next.</think><action>{command}</action>").observation
    assert episode.won


# The tool form.


def test_options_show_the_list_and_reward_a_win_with_ten() -> None:
    env = ALFWorldEnv.configured(**PUBLISHED_OPTIONS)()
    first = env.reset(game=GAME)
    for command in load(GAME).walkthrough:
        env.act(command=command)
    assert "go to dresser 1" in first.partition("Admissible commands: ")[2]
    assert env.get_reward() == 10.0


def test_options_end_an_episode_after_fifty_steps_with_nothing() -> None:
    env = ALFWorldEnv.configured(**PUBLISHED_OPTIONS)()
    env.reset(game=GAME)
    for _ in range(MAX_STEPS):
        env.act(command="look")
    assert env.get_reward() == 0.0
    assert env._stop is StopReason.TURN_BUDGET
