"""Environments in AsyncGRPO's own rollout loop (thread pool, several rollouts at once), without an engine."""

from __future__ import annotations

import asyncio
import inspect
import multiprocessing
import pickle
import queue
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")
pytest.importorskip("aiohttp", reason="AsyncGRPO needs aiohttp")

from accelerate import PartialState
from datasets import Dataset

from tests.scripted import build_tokenizer, call
from trl_agentenvs import ALFWorldEnv
from trl_agentenvs.alfworld import data
from trl_agentenvs.registry import load_factory
from trl_agentenvs.trace import read_trace

worker = pytest.importorskip("trl.experimental.async_grpo.async_rollout_worker")
if not hasattr(worker, "_AsyncRolloutLoop"):
    pytest.skip("this TRL keeps AsyncGRPO's rollout loop elsewhere", allow_module_level=True)

pytestmark = pytest.mark.trainer
GAME = "generated:pick_and_place_simple:3"
EOS = "<|im_end|>"
TEMPLATE = "qwen3_5_nothink"


class ScriptedLoop(worker._AsyncRolloutLoop):  # type: ignore[misc, name-defined]
    """Says the next line of its script as each rollout's turn."""

    scripts: Sequence[Sequence[str]] = ()
    begun = 0

    async def _generate_one(self, *args: Any, **kwargs: Any) -> Any:
        self._turns_of = getattr(self, "_turns_of", {})
        self._turns_of[asyncio.current_task()] = list(self.scripts[self.begun % len(self.scripts)])
        self.begun += 1
        return await super()._generate_one(*args, **kwargs)

    async def _generate_one_turn(self, prompt_ids: list[int]) -> tuple[list[int], list[float]]:
        text = self._turns_of[asyncio.current_task()].pop(0)
        ids = self.tokenizer(text).input_ids
        return ids, [-0.5] * len(ids)


def rollouts_of(factory: Any, row: dict[str, Any], scripts: Sequence[Sequence[str]], n: int) -> list[Any]:
    PartialState(cpu=True)
    context = multiprocessing.get_context("spawn")
    tokenizer = build_tokenizer(TEMPLATE)
    options: dict[str, Any] = {
        "model_name": "tiny",
        "dataset": Dataset.from_list([{"prompt": [{"role": "user", "content": ""}], **row}] * n),
        "reward_funcs": [],
        "processing_class": tokenizer,
        "eos_token_ids": [tokenizer.eos_token_id],
        "rollout_buffer": queue.Queue(),
        "model_version_value": context.Value("i", 0),
        "heartbeat_value": context.Value("d", 0.0),
        "failed_event": threading.Event(),
        "exception_info_queue": queue.Queue(maxsize=1),
        "metrics_queue": queue.Queue(),
        "environment_factory": factory,
        "num_generations": n,
        "max_inflight_tasks": n,
    }
    known = inspect.signature(worker._AsyncRolloutLoop).parameters  # eos_token_ids came with TRL 1.14
    loop = ScriptedLoop(**{name: value for name, value in options.items() if name in known})
    loop.scripts = scripts

    async def run() -> None:
        loop.session = None
        tasks = [loop._generate_loop(stop_event=loop._stop_event), loop._score_loop(stop_event=loop._stop_event)]
        running = asyncio.gather(*tasks)
        deadline = time.monotonic() + 60
        while loop.rollout_buffer.qsize() < n and time.monotonic() < deadline and not running.done():
            await asyncio.sleep(0.01)
        loop._stop_event.set()
        await running

    loop._loop.run_until_complete(run())
    return [loop.rollout_buffer.get_nowait() for _ in range(n)]


def alfworld(repo: Path) -> tuple[Any, dict[str, Any], str, list[dict[str, Any]]]:
    return ALFWorldEnv, {"game": GAME}, "act", [{"command": command} for command in data.load(GAME).walkthrough]


def own_env(repo: Path) -> tuple[Any, dict[str, Any], str, list[dict[str, Any]]]:
    env = load_factory(f"{repo / 'examples' / 'own_env.py'}:NumberEnv")
    return env, {"number": 7}, "guess", [{"number": 3}, {"number": 7}]


@pytest.mark.parametrize("case", [alfworld, own_env])
def test_rollouts_on_a_thread_pool_read_and_earn_the_same(case, repo, tmp_path):
    env_class, row, tool, wins = case(repo)
    winning = [*(call(TEMPLATE, tool, **arguments) for arguments in wins), f"Done.{EOS}"]
    bad = [call(TEMPLATE, "nope"), call(TEMPLATE, tool, content="None"), f"Done.{EOS}"]
    trace = tmp_path / "rollouts.jsonl"
    factory = pickle.loads(pickle.dumps(env_class.configured(trace_path=str(trace))))

    samples = rollouts_of(factory, row, [winning, bad, winning, bad], 4)

    winner, loser = env_class(), env_class()
    winner.reset(**row)
    expected = [winner._call_tool(tool, arguments) for arguments in wins]
    loser.reset(**row)
    refusal = loser._call_tool(tool, {"content": "None"})
    assert refusal.startswith(f"{tool} needs ")
    told = [[m["content"] for m in sample.completion if m["role"] == "tool"] for sample in samples]
    assert sum(texts == expected for texts in told) == 2
    assert sum(refusal in texts for texts in told) == 2
    ends = {(rollout.stop, rollout.reward) for rollout in read_trace(trace).rollouts if not rollout.unfinished}
    assert ends == {("gave_up", loser.get_reward()), ("solved", winner.get_reward())}
