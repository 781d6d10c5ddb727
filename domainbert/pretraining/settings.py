"""The recipe of a pretraining run: settings of the corpus, examples and phases."""

from typing import Annotated

from pydantic import Field

from domainbert.encoders.loading import DEFAULT_ENCODER
from domainbert.models.manifest import Card
from domainbert.settings import (
    Count,
    NotNegative,
    Positive,
    Settings,
    Share,
)
from domainbert.training.settings import Schedule

Part = Annotated[float, Field(gt=0, lt=1)]
Length = Annotated[int, Field(ge=16)]


class CorpusSettings(Settings):
    """Where the text is; the `[corpus]` table.

    Attributes:
        text: column with one document, or a list of documents, per row.
        patient_id: column with the patient; `stay_id` and `note_id` likewise.
        lines: length in lines at which documents of plain text files are split; 0 never splits.
        held_out: share of the patients that is never trained on; without a patient, of the
            stays, then the notes, then the texts.
        erase: a regular expression; its matches in a sentence are replaced by spaces.
    """

    text: str = "text"
    patient_id: str = "patient_id"
    stay_id: str = "stay_id"
    note_id: str = "note_id"
    lines: NotNegative = 0
    held_out: Part = 0.02
    erase: str = ""


class ExampleSettings(Settings):
    """How training examples are made; the `[examples]` table.

    Attributes:
        masked: share of the tokens to predict.
    """

    masked: Part = 0.15


class TrainingPlan(Schedule):
    """How to train; the `[training]` table. Evaluations are on held-out documents.

    Attributes:
        length: most tokens of an example, special tokens included.
        steps: number of steps of the optimiser.
        batch_tokens: most tokens of a step, padding included (one example always fits).
        device_tokens: most tokens of one pass, padding included; a step makes as many passes as
            its batch needs.
        evaluation_tokens: held-out tokens of one evaluation.
    """

    length: Length = 128
    steps: Count = 10_000
    batch_tokens: Count = 8192
    device_tokens: Count = 8192
    evaluation_tokens: Count = 100_000
    learning_rate: Positive = 1e-4
    evaluations: Count = 20
    warmup: Share = 0.01


class PretrainingRecipe(Settings):
    """A pretraining run; one TOML file.

    Attributes:
        encoder: the encoder to start from: shipped name, folder or `hub:owner/name`.
    """

    encoder: str = DEFAULT_ENCODER
    corpus: CorpusSettings = CorpusSettings()
    examples: ExampleSettings = ExampleSettings()
    training: TrainingPlan = TrainingPlan()
    card: Card = Card()
