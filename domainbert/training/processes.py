"""The processes that train together, from the variables of torchrun and accelerate."""

from __future__ import annotations

import os


def process_count() -> int:
    """How many they are. The Trainer knows too, but wants the number of steps first."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first_process() -> bool:
    """Whether this is the one that writes and tells."""
    return os.environ.get("RANK", "0") == "0"
