"""Pretraining an encoder on a corpus; a run that was killed resumes."""

import logging
import math
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from datasets import Dataset
from torch.nn.functional import cross_entropy

from domainbert.files import FULL, disk_errors, folder_beside
from domainbert.pretraining.corpus import (
    HELD_OUT,
    TRAIN,
    TextCorpus,
    read_exclusions,
)
from domainbert.pretraining.examples import (
    IGNORED,
    Masker,
    Prepared,
    private_folder,
)
from domainbert.pretraining.model import (
    EncoderManifest,
    PretrainingNetwork,
    check_free,
    load_start,
    new_manifest,
    save_encoder,
    start_output_layer,
)
from domainbert.pretraining.settings import PretrainingRecipe, TrainingPlan
from domainbert.text.runner import evaluating, plan_batches
from domainbert.training.checkpoints import last_checkpoint, resume_hint
from domainbert.training.objective import (
    Batch,
    LengthBatches,
    Objective,
    fingerprint,
)
from domainbert.training.settings import Schedule, TrainingSettings
from domainbert.training.trainer import fit

Measures = dict[str, float]
# Tokens of an evaluation batch, the same on every device because masks are drawn per batch.
EVALUATION_TOKENS = 4096
log = logging.getLogger(__name__)


def pretrain(
    sources: Iterable[str | Path],
    *,
    out: str | Path,
    recipe: PretrainingRecipe | None = None,
    exclude: Iterable[str | Path] = (),
    work: str | Path | None = None,
) -> EncoderManifest:
    """Train an encoder on text; a call that was killed resumes when it is repeated.

    Args:
        sources: text files, tables, and folders of them.
        out: the encoder folder to write; must not exist.
        recipe: the settings.
        exclude: exclusion lists, see `read_exclusions`.
        work: folder for tokens, examples and checkpoints; `OUT-work` by default. It holds the text
            as numbers: protect it as you protect the text.

    Returns:
        The manifest, `pretraining.json` in the folder: settings, counts, and under "before" and
        "after" the measures on held-out documents, {measure: value}.

    Raises:
        TextCorpusError: no text, only excluded text, or documents without the ids that the
            exclusions name.
        EncoderError: no such encoder, or not a BERT.
        FileExistsError: `out` exists.
        TableError: a table that cannot be read.
        UserError: a length that the encoder cannot read, or another process trains this recipe.
    """
    out = Path(out)
    recipe = recipe or PretrainingRecipe()
    check_free(out)
    with folder_beside(out):
        pass  # fails here, before days of training, if the folder cannot be written
    corpus = TextCorpus(
        sources,
        settings=recipe.corpus,
        exclusions=read_exclusions(exclude),
    )
    start = load_start(recipe.encoder, plan=recipe.training)
    work = Path(work) if work else out.with_name(f"{out.name}-work")
    hint = (
        f"to resume, repeat the same command; {work} keeps the text as numbers and the "
        "checkpoints: protect it as you protect the text, and delete it if you do not resume"
    )
    with resume_hint(work, hint), disk_errors(work, FULL):
        prepared = Prepared(
            corpus,
            plan=recipe.training,
            tokenizer=start.tokenizer,
            work=work,
        )
        _warn_of_missing(prepared.counts["exclusions"])
        if start.fresh_head:
            rows = start.network.config.vocab_size
            start_output_layer(
                start.network, prepared.frequencies(TRAIN, rows)
            )
        facts = recipe.model_dump(exclude={"card"})
        facts |= {"data": prepared.name, "start": start.sha256}
        folder = private_folder(work / f"run-{fingerprint(facts)[:12]}")
        masker = Masker(start.tokenizer, masked=recipe.examples.masked)
        objective = MaskedWords(
            prepared.examples,
            plan=recipe.training,
            masker=masker,
        )
        network, before, after = train(start.network, objective, folder=folder)
        manifest = new_manifest(
            recipe,
            counts=prepared.counts,
            start=start,
        )
        manifest |= {"before": before, "after": after}
        save_encoder(
            out,
            network=network,
            start=start,
            manifest=manifest,
        )
        shutil.rmtree(folder)
    return manifest


def _warn_of_missing(exclusions: Mapping[str, Mapping[str, int]]) -> None:
    """Log how many excluded ids the corpus does not have: they may be spelled differently."""
    for id_name, ids in exclusions.items():
        if ids["not found"]:
            log.warning(
                "%d of %d excluded %s values were not found in the corpus: check that they "
                "are spelled alike",
                ids["not found"],
                ids["listed"],
                id_name,
            )


def train(
    network: PretrainingNetwork,
    objective: "MaskedWords",
    *,
    folder: Path,
) -> tuple[PretrainingNetwork, Measures, Measures]:
    """Train a network in place, from the last checkpoint in `folder` if there is one.

    Returns:
        The network, and its measures on held-out documents before and after.
    """
    network.to("cuda" if torch.cuda.is_available() else "cpu")
    before = objective.evaluate(network)
    shared = objective.plan.model_dump(include=set(Schedule.model_fields))
    trained, _ = fit(
        network,
        objective,
        settings=TrainingSettings(epochs=1.0, **shared),
        facts=objective.facts(),
        folder=folder,
        resume=last_checkpoint(folder) is not None,
        max_steps=objective.plan.steps,
        gradient_accumulation_steps=objective.passes,
        # The last weights are the best ones: the minimum of the held-out loss is noise.
        load_best_model_at_end=False,
        metric_for_best_model=None,
    )
    return trained, before, objective.evaluate(trained)


# --- masked words


class MaskedWords(Objective):
    """Masked words and next sentences.

    The masks are drawn anew in every epoch, from the seed, the epoch and the batch (Liu et al.,
    arXiv 1907.11692). One set of examples therefore serves all epochs, and a resumed run draws
    the same masks.

    Args:
        examples: examples of each side; the held-out ones are drawn and masked once for all
            evaluations.
        plan: the settings.
        masker: draws the masks.

    Attributes:
        passes: through the network, per step.
    """

    metric = "mlm_accuracy"

    def __init__(
        self,
        examples: Mapping[str, Dataset],
        *,
        plan: TrainingPlan,
        masker: Masker,
    ) -> None:
        self.plan = plan
        self._examples = examples[TRAIN]
        self._masker = masker
        self._held_out = list(self._held_out_batches(examples[HELD_OUT]))
        self.passes = math.ceil(plan.batch_tokens / plan.device_tokens)
        lengths = np.asarray(self._examples["length"][:])
        self.batches = LengthBatches(
            np.stack([np.ones_like(lengths), lengths], axis=1),
            batch_size=len(lengths),
            batch_tokens=plan.batch_tokens // self.passes,
            seed=plan.seed,
        )

    def _held_out_batches(self, examples: Dataset) -> Iterator[Batch]:
        """Masked batches of a random choice of examples, as many as an evaluation reads."""
        order = np.random.default_rng(self.plan.seed).permutation(
            len(examples)
        )
        lengths = np.asarray(examples["length"][:])
        is_within = np.cumsum(lengths[order]) < self.plan.evaluation_tokens
        chosen = order[: max(1, np.count_nonzero(is_within))]
        batches = plan_batches(lengths[chosen], batch_tokens=EVALUATION_TOKENS)
        for number, batch in enumerate(batches):
            rows = examples[chosen[batch].tolist()]
            yield self._masker.batch(rows, seed=(self.plan.seed, number))

    def collate(self, batch: Sequence[int], *, epoch: int) -> Batch:
        """A masked batch."""
        rows = self._examples[list(batch)]
        return self._masker.batch(rows, seed=(self.plan.seed, epoch, batch[0]))

    def loss(self, network: PretrainingNetwork, batch: Batch) -> torch.Tensor:
        """Cross-entropy of the masked tokens plus that of the pairs."""
        return network(**batch).loss

    def evaluate(self, network: PretrainingNetwork) -> Measures:
        """Scores on held-out documents, on the network's device; its training mode is restored.

        Returns:
            `mlm_loss` (mean cross-entropy in nats), `perplexity`, `mlm_accuracy` and `tokens` of
            the masked tokens; `nsp_accuracy` and `pairs`.
        """
        was_training = network.training
        with evaluating(network):
            counts = [_counts(network, batch) for batch in self._held_out]
        network.train(was_training)
        loss, correct, tokens, correct_pairs, pairs = np.sum(counts, axis=0)
        mean_loss = loss / max(tokens, 1)
        return {
            "mlm_loss": mean_loss,
            "perplexity": math.exp(min(mean_loss, 700.0)),
            "mlm_accuracy": correct / max(tokens, 1),
            "tokens": int(tokens),
            "nsp_accuracy": correct_pairs / pairs,
            "pairs": int(pairs),
        }

    def facts(self) -> dict[str, object]:
        """The settings; `pretrain` names the folder of a run by these and its data."""
        return {"plan": self.plan.model_dump()}


def _counts(network: PretrainingNetwork, batch: Batch) -> list[float]:
    """The summed loss, then correct and all masked tokens, then correct and all pairs."""
    batch = {name: tensor.to(network.device) for name, tensor in batch.items()}
    output = network(**batch)
    masked = batch["labels"][batch["labels"] != IGNORED]
    words = output.prediction_logits.float()
    loss = cross_entropy(words, masked, reduction="sum")
    correct = (words.argmax(dim=-1) == masked).sum()
    pairs = batch["next_sentence_label"]
    orders = output.seq_relationship_logits.argmax(dim=-1)
    correct_pairs = (orders == pairs).sum()
    totals = [loss, correct, masked.numel(), correct_pairs, pairs.numel()]
    return list(map(float, totals))
