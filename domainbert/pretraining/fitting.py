"""pretrain(): trains an encoder folder on a corpus; a killed run resumes."""

from __future__ import annotations

import copy
import logging
import math
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from domainbert.encoders.loading import find_encoder, load_config, window_limit
from domainbert.errors import UserError
from domainbert.files import folder_beside, locked
from domainbert.pretraining.corpus import HELD_OUT, TRAIN, Corpus, read_exclusions
from domainbert.pretraining.examples import IGNORED, Masker, Prepared, fingerprint, private_folder
from domainbert.pretraining.model import (
    check_free,
    load_start,
    load_start_tokenizer,
    new_manifest,
    save_encoder,
    start_output_layer,
)
from domainbert.pretraining.settings import Recipe
from domainbert.text.runner import plan_batches
from domainbert.training.checkpoints import checkpoint_step, last_checkpoint, resume_hint
from domainbert.training.objective import LengthBatches, Objective
from domainbert.training.settings import TrainingSettings
from domainbert.training.trainer import ObjectiveTrainer, load_trained

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from datasets import Dataset

    from domainbert.pretraining.model import PretrainingNetwork
    from domainbert.pretraining.settings import Phase, TrainingPlan

Scores = dict[str, float]
# Of an evaluation batch, on every device: what is masked is drawn batch by batch.
EVALUATION_TOKENS = 4096
log = logging.getLogger(__name__)


def pretrain(
    sources: Iterable[str | Path],
    *,
    out: str | Path,
    recipe: Recipe | None = None,
    exclude: Iterable[str | Path] = (),
    work: str | Path | None = None,
) -> dict[str, Any]:
    """Train an encoder on text, or resume where the same call was killed.

    Args:
        sources: text files, tables, and folders of them.
        out: the encoder folder to write; must not exist.
        recipe: the settings.
        exclude: tables of what must not be read, see `read_exclusions`.
        work: folder for tokens, examples and checkpoints; `OUT-work` by default. It holds the text
            as numbers: protect it as you protect the text.

    Returns:
        The manifest, `pretraining.json` in the folder: settings, counts, and under "before" and
        "after" the scores on held-out documents, {phase: {measure: value}}.

    Raises:
        CorpusError: no text, all of it excluded, or documents that cannot be told from the
            excluded ones.
        EncoderError: no such encoder, or not a BERT.
        FileExistsError: `out` exists.
        TableError: a table that cannot be read.
        UserError: a length that the encoder cannot read, or another process trains this recipe.
    """
    out, recipe = Path(out), recipe or Recipe()
    check_free(out)
    with folder_beside(out):
        pass  # fails before training if it cannot be written
    _check_lengths(recipe)
    work = Path(work) if work else out.with_name(f"{out.name}-work")
    corpus = Corpus(sources, settings=recipe.corpus, exclusions=read_exclusions(exclude))
    tokenizer = load_start_tokenizer(recipe.encoder)
    hint = (
        f"to resume, repeat the same command; {work} keeps the text as numbers and the "
        "checkpoints: protect it as you protect the text, and delete it if you do not resume"
    )
    with resume_hint(work, hint):
        prepared = Prepared(corpus, recipe=recipe, tokenizer=tokenizer, work=work)
        for kind, ids in prepared.counts["exclusions"].items():
            if missing := ids["not found"]:
                log.warning(
                    "%d of %d excluded %s values were not found in the corpus: check that they "
                    "are spelled alike",
                    *(missing, ids["listed"], kind),
                )
        run = _Run(recipe, prepared, Masker(tokenizer, masked=recipe.examples.masked), work=work)
        with locked(run.folder):
            before = run.scores(run.start.network)
            network = run.train()
            manifest = new_manifest(recipe, counts=prepared.counts, start=run.start)
            manifest |= {"before": before, "after": run.scores(network)}
            dropout = run.start.dropout
            save_encoder(
                out, network=network, tokenizer=tokenizer, manifest=manifest, dropout=dropout
            )
            shutil.rmtree(run.folder)
    return manifest


def _check_lengths(recipe: Recipe) -> None:
    limit = window_limit(load_config(find_encoder(recipe.encoder)))
    for name, phase in recipe.phases.items():
        if phase.length > limit:
            msg = (
                f"[{name}] has examples of {phase.length} tokens, but {recipe.encoder} "
                f"reads at most {limit}; set length = {limit} there"
            )
            raise UserError(msg)


class _Run:
    """The training of one recipe on prepared examples, in a folder of its own in `work`."""

    def __init__(self, recipe: Recipe, prepared: Prepared, masker: Masker, *, work: Path) -> None:
        self._recipe, self._prepared, self._masker = recipe, prepared, masker
        self.start = load_start(recipe.encoder, plan=recipe.training)
        if self.start.fresh_head:
            rows = self.start.network.config.vocab_size
            start_output_layer(self.start.network, prepared.frequencies(TRAIN, rows))
        facts = {**recipe.model_dump(exclude={"card"}), "data": prepared.name}
        name = f"run-{fingerprint(facts | {'start': self.start.sha256})}"
        self.folder = private_folder(work / name)
        self._held_out = {
            name: HeldOut(sides[HELD_OUT], masker=masker, plan=recipe.training)
            for name, sides in prepared.examples.items()
        }

    def scores(self, network: PretrainingNetwork) -> dict[str, Scores]:
        """Scores on held-out documents at each phase's length."""
        network.to("cuda" if torch.cuda.is_available() else "cpu")
        return {name: held.scores(network) for name, held in self._held_out.items()}

    def train(self) -> PretrainingNetwork:
        """Run all phases, from where a killed run was; returns the trained network."""
        checkpoint = None
        for name in self._recipe.phases:
            checkpoint = self._train_phase(name, after=checkpoint)
        return self._network_at(checkpoint)

    def _network_at(self, checkpoint: Path | None) -> PretrainingNetwork:
        """A new network with the weights of a checkpoint or of the start.

        Each phase starts this way, whether the one before ran in this process or not.
        """
        network = copy.deepcopy(self.start.network)
        if not self._recipe.examples.pairs:
            network.bert.pooler.requires_grad_(requires_grad=False)
            network.cls.seq_relationship.requires_grad_(requires_grad=False)
        if checkpoint:
            load_trained(network.cpu(), checkpoint)
        return network

    def _train_phase(self, name: str, *, after: Path | None) -> Path:
        """Train a phase; returns its last checkpoint."""
        folder, phase = self.folder / name, self._recipe.phases[name]
        checkpoint = last_checkpoint(folder)
        if not checkpoint or checkpoint_step(checkpoint) < phase.steps:
            objective = MaskedWords(
                self._prepared.examples[name][TRAIN],
                held_out=self._held_out[name],
                phase=phase,
                plan=self._recipe.training,
                masker=self._masker,
            )
            if checkpoint:
                log.info("phase %s resumes after step %d", name, checkpoint_step(checkpoint))
            network = self._network_at(after)
            train_phase(objective, network, folder=folder, resume=checkpoint is not None)
        return folder / f"checkpoint-{phase.steps}"


# --- one phase


class MaskedWords(Objective):
    """Masked words, and next sentences if the examples are pairs.

    The masks are drawn anew in every epoch, from the seed, the epoch and the batch (Liu et al.,
    arXiv 1907.11692). So one set of examples serves all epochs, and a resumed run draws the same.

    Attributes:
        phase: its settings.
        plan: those that the phases share.
        passes: per step.
    """

    metric = "mlm_accuracy"

    def __init__(
        self,
        examples: Dataset,
        *,
        held_out: HeldOut,
        phase: Phase,
        plan: TrainingPlan,
        masker: Masker,
    ) -> None:
        self._examples, self._held_out, self._masker = examples, held_out, masker
        self.phase, self.plan = phase, plan
        self.passes = math.ceil(phase.batch_tokens / plan.device_tokens)
        lengths = np.asarray(examples["length"][:])
        self._batches = LengthBatches(
            np.stack([np.ones_like(lengths), lengths], axis=1),
            batch_size=len(lengths),
            batch_tokens=phase.batch_tokens // self.passes,
            seed=plan.seed,
        )

    def batches(self) -> LengthBatches:
        """Batches of example numbers; several are one step."""
        return self._batches

    def collate(self, batch: Sequence[int], *, epoch: int) -> dict[str, torch.Tensor]:
        """A masked batch."""
        rows = self._examples[list(batch)]
        return self._masker.batch(rows, seed=(self.plan.seed, epoch, batch[0]))

    def loss(self, network: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Cross-entropy of the masked tokens plus that of the pairs."""
        return network(**batch).loss

    def score(self, network: PretrainingNetwork) -> Scores:
        """Scores on held-out documents."""
        return self._held_out.scores(network)

    def facts(self) -> dict[str, Any]:
        """The settings; `pretrain` names the folder of a run by these and its data."""
        return {"phase": self.phase.model_dump(), "plan": self.plan.model_dump()}


def train_phase(
    objective: MaskedWords, network: PretrainingNetwork, *, folder: Path, resume: bool = False
) -> ObjectiveTrainer:
    """Train a network in place for the steps of a phase; the folder keeps its checkpoints."""
    phase, plan = objective.phase, objective.plan
    settings = TrainingSettings(
        epochs=1.0,
        learning_rate=phase.learning_rate,
        evaluations=plan.evaluations,
        warmup=phase.warmup,
        weight_decay=plan.weight_decay,
        attention=phase.attention,
        seed=plan.seed,
    )
    trainer, _ = ObjectiveTrainer.run(
        network,
        objective,
        settings=settings,
        facts=objective.facts(),
        folder=folder,
        resume=resume,
        max_steps=phase.steps,
        gradient_accumulation_steps=objective.passes,
        # The last weights are kept: the minimum of the held-out loss is noise.
        load_best_model_at_end=False,
        metric_for_best_model=None,
    )
    return trainer


class HeldOut:
    """Held-out examples, drawn and masked once for all evaluations."""

    def __init__(self, examples: Dataset, *, masker: Masker, plan: TrainingPlan) -> None:
        order = np.random.default_rng(plan.seed).permutation(len(examples))
        lengths = np.asarray(examples["length"][:])
        fits = np.cumsum(lengths[order]) < plan.evaluation_tokens
        chosen = order[: int(fits.sum()) or 1]
        self._batches = [
            masker.batch(examples[chosen[batch].tolist()], seed=(plan.seed, number))
            for number, batch in enumerate(
                plan_batches(lengths[chosen], batch_tokens=EVALUATION_TOKENS)
            )
        ]

    def scores(self, network: PretrainingNetwork) -> Scores:
        """Score a network on its own device, whose training mode is restored.

        Returns:
            `mlm_loss` (mean cross-entropy in nats), `perplexity`, `mlm_accuracy` and `tokens` of
            the masked tokens; with pairs also `nsp_accuracy` and `pairs`.
        """
        device, training = network.device, network.training
        totals = np.zeros(5)
        network.eval()
        autocast = torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")
        with torch.inference_mode(), autocast:
            for batch in self._batches:
                totals += _counts(network, {k: v.to(device) for k, v in batch.items()})
        network.train(training)
        loss, right, tokens, right_pairs, pairs = totals.tolist()
        loss /= max(tokens, 1)
        scores = {
            "mlm_loss": loss,
            "perplexity": math.exp(min(loss, 700.0)),
            "mlm_accuracy": right / max(tokens, 1),
            "tokens": int(tokens),
        }
        if pairs:
            scores |= {"nsp_accuracy": right_pairs / pairs, "pairs": int(pairs)}
        return scores


def _counts(network: PretrainingNetwork, batch: dict[str, torch.Tensor]) -> np.ndarray:
    """Summed loss, correct and all masked tokens, correct and all pairs."""
    output = network(**batch)
    masked = batch["labels"][batch["labels"] != IGNORED]
    words = output.prediction_logits.float()
    loss = cross_entropy(words, masked, reduction="sum")
    right = (words.argmax(dim=-1) == masked).sum()
    right_pairs = pairs = 0
    if (wanted := batch.get("next_sentence_label")) is not None:
        right_pairs = int((output.seq_relationship_logits.argmax(dim=-1) == wanted).sum())
        pairs = len(wanted)
    return np.array([float(loss), int(right), len(masked), right_pairs, pairs])
