"""Batches of ids, because a statement can bind only so many values."""

from collections.abc import Sequence
from typing import Final

BATCH: Final = 500  # ids in one statement


def batches(ids: Sequence[str]) -> list[Sequence[str]]:
    """The ids in their order, at most BATCH at a time; no batch if there are none."""
    return [ids[start : start + BATCH] for start in range(0, len(ids), BATCH)]
