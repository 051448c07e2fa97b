"""The first minute with ALFWorld: no trainer, no model, no download, only the standard library.

Run it: `python examples/alfworld_first_minute.py`
"""

from __future__ import annotations

from trl_agentenvs import ALFWorldEnv, StopReason
from trl_agentenvs.alfworld.expert import Expert

GAME = "generated:pick_heat_then_place_in_recep:2000"


def main() -> None:
    """Try three commands, then let the expert win the same game."""
    env = ALFWorldEnv(max_steps=50)
    print(env.reset(game=GAME))
    for command in ("look", "inventory", "dance"):
        print(f"\n> {command}\n{env.act(command=command)}")

    # A model forgets arguments, invents others and renames them: it reads what to do, and nothing raises.
    print(f"\nact() -> {env._call_tool('act', {})}")
    print(f"act(action='look', why=None) -> {env._call_tool('act', {'action': 'look', 'why': None})}")

    print("\nThe expert, from observations alone:")
    observation = env.reset(game=GAME)
    expert = Expert(observation)
    while env._stop is None:
        command = expert.act(observation)
        observation = env.act(command=command)
        print(f"> {command}")
    print(
        f"\n{observation}\nreward {env.get_reward():.2f} after {env._turns} steps, solved:",
        env._stop is StopReason.SOLVED,
    )


if __name__ == "__main__":
    main()
