"""What a training does between its steps: it tells how far it is, and stops where nothing comes."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import Any

import numpy as np
from transformers import TrainerCallback

from domainbert.console import progress

log = logging.getLogger(__name__)


class Patience(TrainerCallback):
    """Stops where the last evaluations brought no better score.

    They are counted in the training's own history, so that a resumed run stops where it would have
    stopped, and one that had stopped does not go on.

    Args:
        evaluations: without a better score.
    """

    def __init__(self, evaluations: int) -> None:
        self._evaluations = evaluations

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stop a resumed run that had stopped; it still does a step, which nobody keeps."""
        self._stop(args, state, control)

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stop where patience is at its end."""
        self._stop(args, state, control)

    def _stop(self, args: Any, state: Any, control: Any) -> None:
        name = f"eval_{args.metric_for_best_model}"
        scores = [entry[name] for entry in state.log_history if name in entry]
        if scores and len(scores) - 1 - int(np.argmax(scores)) >= self._evaluations:
            control.should_training_stop = True


class StepBar(TrainerCallback):
    """A bar over the steps; validation scores go to the log."""

    def __init__(self) -> None:
        self._open = ExitStack()

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Show the bar."""
        self._advance = self._open.enter_context(progress("training", total=state.max_steps))
        self._advance(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Count a step."""
        self._advance(1)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Log the score."""
        log.info("step %d: %s", state.global_step, kwargs.get("metrics"))

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Take the bar away."""
        self.close()

    def close(self) -> None:
        """Take the bar away, after an interruption too."""
        self._open.close()
