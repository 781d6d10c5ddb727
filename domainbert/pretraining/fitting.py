"""Pretrain: a corpus and a recipe -> an encoder folder, in phases that can be killed and go on."""

from __future__ import annotations

import copy
import logging
import os
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from domainbert.encoders import find_encoder, load_config, window_limit
from domainbert.errors import UserError
from domainbert.files import write_json
from domainbert.pretraining.corpus import HELD_OUT, TRAIN, Corpus
from domainbert.pretraining.evaluation import HeldOut
from domainbert.pretraining.exclusion import read_exclusions
from domainbert.pretraining.masking import Masker
from domainbert.pretraining.model import (
    load_start,
    load_start_tokenizer,
    prepare,
    start_from_scratch,
    start_output_layer,
    training_flops,
)
from domainbert.pretraining.preparing import prepare_examples
from domainbert.pretraining.recipe import Recipe
from domainbert.pretraining.saving import check_free, new_manifest, save_encoder
from domainbert.pretraining.speed import speed_report
from domainbert.pretraining.store import fingerprint, read_json
from domainbert.pretraining.trainer import PretrainingTrainer
from domainbert.training.old.checkpoints import STATE, checkpoint_step, last_checkpoint
from domainbert.training.processes import is_first_process

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from domainbert.pretraining.model import PretrainingNetwork, Start
    from domainbert.pretraining.preparing import Prepared

BEFORE, SPEED = "before.json", "speed.json"
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pretrained:
    """A pretrained encoder.

    Attributes:
        folder: the encoder, for `--encoder`.
        before: phase -> scores of the start on held-out documents at that phase's length.
        after: the same of the result.
        manifest: all that is known of how it was made; `pretraining.json` in the folder. Of
            several processes only the first knows it.
    """

    folder: Path
    before: Mapping[str, Mapping[str, float]]
    after: Mapping[str, Mapping[str, float]]
    manifest: Mapping[str, Any] = field(repr=False)


def pretrain(
    sources: Iterable[str | Path],
    *,
    out: str | Path,
    recipe: Recipe | None = None,
    exclude: Iterable[str | Path] = (),
    work: str | Path | None = None,
) -> Pretrained:
    """Train an encoder on text, or go on where the same call was killed.

    Args:
        sources: text and table files, and folders of them.
        out: the encoder folder to write; must not be there.
        recipe: the plan.
        exclude: tables of what must not be read, see `read_exclusions`.
        work: folder for tokens, examples and checkpoints; beside `out` by default. The examples
            stay there for the next run. They are the text in numbers: guard them as the text.

    Raises:
        CorpusError: no text, all of it excluded, or documents that cannot be told from the
            excluded ones.
        EncoderError: no such encoder, or no BERT.
        FileExistsError: `out` is there.
        TableError: a table that cannot be read.
        ValueError: a length that the encoder cannot read.
    """
    out, recipe = Path(out), recipe or Recipe()
    check_free(out)
    _check_lengths(recipe)
    work = Path(work) if work else out.with_name(f"{out.name}-work")
    corpus = Corpus(sources, settings=recipe.corpus, exclusions=read_exclusions(exclude))
    tokenizer = load_start_tokenizer(recipe.encoder) if recipe.encoder else None
    prepared = prepare_examples(corpus, recipe=recipe, tokenizer=tokenizer, work=work)
    run = _Run(recipe, prepared, work=work)
    checkpoint = run.train()
    if not is_first_process():
        return Pretrained(out, run.before, {}, {})
    network = run.merged(checkpoint)
    manifest = new_manifest(recipe, prepared=prepared, start=run.start)
    manifest |= {"before": run.before, "after": run.scores(network)}
    manifest |= {"history": run.history, "speed": run.speed}
    save_encoder(
        out,
        network=network,
        tokenizer=prepared.tokenizer,
        manifest=manifest,
        dropout=run.start.dropout,
    )
    shutil.rmtree(run.folder)  # its checkpoints have done their work
    return Pretrained(out, manifest["before"], manifest["after"], manifest)


def _check_lengths(recipe: Recipe) -> None:
    """Refuse what the encoder has no positions for, before any text is read."""
    if recipe.scratch:
        limit = recipe.scratch.positions
    else:
        limit = window_limit(load_config(find_encoder(recipe.encoder or "")))
    for name, phase in recipe.phases.items():
        if phase.length > limit:
            msg = (
                f"[{name}] has examples of {phase.length} tokens, but {recipe.encoder or 'it'} "
                f"reads at most {limit}; set length = {limit} there"
            )
            raise UserError(msg)


class _Run:
    """The training of one recipe on prepared examples.

    Args:
        recipe: the plan.
        prepared: what training reads.
        work: where the run's own folder is or will be.
    """

    def __init__(self, recipe: Recipe, prepared: Prepared, *, work: Path) -> None:
        self._recipe, self._prepared, plan = recipe, prepared, recipe.training
        self.start = self._new_start()
        facts = {**asdict(recipe), "card": None, "data": prepared.names}
        self.folder = work / f"run-{fingerprint(facts | {'start': self.start.sha256})}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._masker = Masker(
            prepared.tokenizer,
            masked=recipe.examples.masked,
            whole_words=recipe.examples.whole_words,
        )
        self._held_out = {
            name: HeldOut(
                examples[HELD_OUT],
                masker=self._masker,
                tokens=plan.evaluation_tokens,
                pad_token_id=prepared.tokenizer.pad_token_id,
                seed=plan.seed,
            )
            for name, examples in prepared.examples.items()
        }
        self.before: dict[str, dict[str, float]] = {}
        self.history: dict[str, list[dict[str, float]]] = {}
        self.speed: dict[str, dict[str, Any]] = {}

    def _new_start(self) -> Start:
        recipe, tokenizer = self._recipe, self._prepared.tokenizer
        if recipe.scratch:
            start = start_from_scratch(tokenizer, scratch=recipe.scratch, plan=recipe.training)
        else:
            start = load_start(recipe.encoder or "", plan=recipe.training)
        if start.fresh_head:
            documents = self._prepared.documents[TRAIN]
            rows = start.network.config.vocab_size
            start_output_layer(start.network, documents.frequencies(rows))
        return start

    def scores(self, network: PretrainingNetwork) -> dict[str, dict[str, float]]:
        """Scores on held-out documents at each phase's length."""
        network.to(_device())
        return {name: held.scores(network).to_dict() for name, held in self._held_out.items()}

    def train(self) -> Path | None:
        """All phases, from wherever a killed run was; the last checkpoint."""
        file = self.folder / BEFORE
        self.before = read_json(file) if file.is_file() else self.scores(self.start.network)
        if is_first_process():
            write_json(self.before, file)
        checkpoint = None
        for name in self._recipe.phases:
            checkpoint = self._train_phase(name, after=checkpoint)
        return checkpoint

    def merged(self, checkpoint: Path | None) -> PretrainingNetwork:
        """The network of a checkpoint, its adapters merged."""
        network, adapters = self._network_at(checkpoint)
        return adapters.merge_and_unload() if adapters else network

    def _network_at(self, checkpoint: Path | None) -> tuple[PretrainingNetwork, Any]:
        """A new network with the weights of a checkpoint, or of the start, and its adapters.

        A phase always begins with one, whether the phase before it ran in this process or not.
        """
        recipe, network = self._recipe, copy.deepcopy(self.start.network)
        adapters = prepare(network, plan=recipe.training, pairs=recipe.examples.pairs)
        if checkpoint:
            _load_weights(network, checkpoint)
        return network, adapters

    def _train_phase(self, name: str, *, after: Path | None) -> Path:
        """Train a phase to its end; its last checkpoint."""
        folder, phase = self.folder / name, self._recipe.phases[name]
        checkpoint = last_checkpoint(folder)
        if not checkpoint or checkpoint_step(checkpoint) < phase.steps:
            trainer = PretrainingTrainer(
                self._network_at(after)[0],
                examples=self._prepared.examples[name][TRAIN],
                phase=phase,
                plan=self._recipe.training,
                masker=self._masker,
                evaluate=lambda network: self._held_out[name].scores(network).to_dict(),
                pad_token_id=self._prepared.tokenizer.pad_token_id,
                folder=folder,
            )
            if checkpoint:
                log.info("phase %s goes on after step %d", name, checkpoint_step(checkpoint))
            trainer.train(resume_from_checkpoint=checkpoint)
            if is_first_process():
                write_json(self._speed(trainer, name), folder / SPEED)
            checkpoint = folder / f"checkpoint-{phase.steps}"
        self.history[name] = read_json(checkpoint / STATE)["log_history"]
        if (folder / SPEED).is_file():
            self.speed[name] = read_json(folder / SPEED)
        return checkpoint

    def _speed(self, trainer: PretrainingTrainer, name: str) -> dict[str, Any]:
        recipe, lengths = self._recipe, self._prepared.examples[name][TRAIN].lengths
        flops = training_flops(
            self.start.network.config,
            # Of the sequence that a token is in, on average.
            length=float((lengths**2).sum() / lengths.sum()),
            masked=recipe.examples.masked,
            lora=bool(recipe.training.lora_rank),
        )
        return speed_report(
            tokens=trainer.tokens,
            seconds=trainer.seconds,
            flops=flops,
            device=_device(),
            dtype=torch.bfloat16 if trainer.args.bf16 else torch.float32,
        )


def _device() -> torch.device:
    """The device that the Trainer takes too."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


def _load_weights(network: PretrainingNetwork, checkpoint: Path) -> None:
    from safetensors.torch import load_file

    missing, unexpected = network.load_state_dict(
        load_file(checkpoint / "model.safetensors"), strict=False
    )
    tied = set(network.all_tied_weights_keys)
    if lost := [*unexpected, *(name for name in missing if name not in tied)]:
        msg = f"{checkpoint} lacks or has {len(lost)} weights too many; remove it and start again"
        raise UserError(msg)
