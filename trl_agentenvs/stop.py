"""All the ways an episode can end: exactly one of them holds for each rollout."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["StopReason"]


class StopReason(StrEnum):
    """Why a rollout ended. Members compare equal to their lower-case names; `sentence` is what the model reads.

    The environment sets the first six. What only the generated tokens show, the trainer's side sets
    (`trl_agentenvs.EpisodeLog`): the others, GAVE_UP, and TURN_BUDGET for the trainer's own limit. Where it does not,
    scoring an episode that runs ends it as GAVE_UP or NO_CALL, and resetting one that was not scored as TRUNCATED.
    """

    def __new__(cls, value: str, sentence: str) -> StopReason:
        """Build a member from its log name and the words shown to the model."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.sentence = sentence
        return member

    sentence: str

    SOLVED = ("solved", "solved")
    FAILED = ("failed", "failed")
    TURN_BUDGET = ("turn_budget", "no turns are left")
    WALL = ("wall", "the time is up")
    GAVE_UP = ("gave_up", "you stopped")
    ENV_ERROR = ("env_error", "the environment failed")
    NO_CALL = ("no_call", "no tool was called")
    MALFORMED = ("malformed", "the tool call could not be parsed")
    TOKEN_BUDGET = ("token_budget", "the last result did not fit into the token budget")
    TRUNCATED = ("truncated", "the rollout was cut in mid-turn")

    @property
    def notice(self) -> str:
        """The line a model reads when it calls a tool after the end."""
        return f"The episode is over: {self.sentence}."
