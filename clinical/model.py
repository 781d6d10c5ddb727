"""ReadmissionModel: the model that users hold, with tables, explanations and trajectories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from clinical.risk.model import RiskModel

if TYPE_CHECKING:
    import pandas as pd

    from clinical.evidence.view import Explanation, StayView
    from clinical.risk.task import Notes
    from clinical.stays.stays import Given


class ReadmissionModel(RiskModel):
    """ClinicalBERT's readmission model: `from_pretrained` loads one, and `fit` trains one.

    `predict` and `predict_many` give risks; for arguments and attributes see
    `clinical.risk.model.RiskModel`, and for `fit` see `clinical.training.training.fit`.
    """

    def predict_frame(
        self,
        frame: pd.DataFrame,
        *,
        named: Mapping[str, str] | None = None,
        keep: Sequence[str] = (),
        notes: Notes = "chosen",
    ) -> pd.DataFrame:
        """Score a table of notes, or of stays, into one row a stay, in order of first appearance.

        Args:
            frame: `text`, one note a row, where rows with one `stay_id` are one stay (in
                `chart_time` order where there is one) and without `stay_id` each row is its own;
                or one row a stay, with a list of notes as `text`.
            named: our column name -> the frame's, where they differ.
            keep: other columns to carry into the result.
            notes: "chosen" for those that the model was trained on, "as-given" for all.

        Raises:
            TableError: there is no column `text`, or none to choose the notes by.
        """
        from clinical.risk.task import ReadmissionTask
        from domainbert.scoring import score_frame

        return score_frame(
            ReadmissionTask(self, notes=notes), frame, named=named, keep=keep
        )

    def explain(self, stay: Given, *, top: int = 5) -> Explanation:
        """The passages that raise and lower the risk of a stay; see `clinical.explain`."""
        from clinical.evidence.explain import explain

        return explain(self, stay, top=top)

    def show(self, stay: Given) -> StayView:
        """The notes of a stay with those passages tinted, for a notebook."""
        return self.explain(stay).show()

    def trajectory_frame(
        self,
        frame: pd.DataFrame,
        *,
        named: Mapping[str, str] | None = None,
        keep: Sequence[str] = (),
        notes: Notes = "chosen",
    ) -> pd.DataFrame:
        """The risk after each note of each stay of a table: one row a note, in time order.

        Each window is scored once. The table and its errors are as for `predict_frame`, but
        `stay_id` is needed.
        """
        from clinical.risk.task import TrajectoryTask
        from domainbert.scoring import score_frame

        return score_frame(
            TrajectoryTask(self, notes=notes), frame, named=named, keep=keep
        )
