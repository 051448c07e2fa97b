from __future__ import annotations

import pytest

pytest.importorskip("trl")

from trl_agentenvs.training.budget import Budget


@pytest.mark.parametrize(("schemas", "words"), [(0, "28 tokens; "), (9, "28 tokens (9 of them tool schemas); ")])
def test_budget_names_the_share_of_the_schemas_where_there_is_one(schemas: int, words: str) -> None:
    budget = Budget(prompt=28, schemas=schemas, limit=None, left=512, turn=5, max_turns=12)
    assert words in str(budget)
