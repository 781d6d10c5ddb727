"""pretrain(): trains an encoder folder on a corpus; a killed run resumes."""

from __future__ import annotations

import copy
import fcntl
import hashlib
import json
import logging
import os
import shutil
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_model
from transformers import BertTokenizer

from domainbert import __version__
from domainbert.encoders import find_encoder, load_config, window_limit
from domainbert.errors import UserError
from domainbert.files import folder_beside, replace_folder, write_json
from domainbert.locks import LOCK, locked
from domainbert.pretraining.corpus import (
    HELD_OUT,
    SIDES,
    TRAIN,
    Corpus,
    CorpusError,
    read_exclusions,
)
from domainbert.pretraining.examples import ExampleMaker, Examples, Masker, write_examples
from domainbert.pretraining.model import (
    load_start,
    load_start_tokenizer,
    prepare,
    start_from_scratch,
    start_output_layer,
)
from domainbert.pretraining.objective import HeldOut, MaskedWords
from domainbert.pretraining.report import check_free, new_manifest, save_encoder
from domainbert.pretraining.settings import Recipe, ScratchSettings
from domainbert.pretraining.tokens import Documents, train_vocabulary, write_documents
from domainbert.training.checkpoints import STATE, checkpoint_step, last_checkpoint
from domainbert.training.processes import is_first_process
from domainbert.training.trainer import ObjectiveTrainer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from transformers import PreTrainedTokenizerBase

    from domainbert.pretraining.model import PretrainingNetwork

BEFORE, SPEED, MANIFEST, TOKENIZER = "before.json", "speed.json", "manifest.json", "tokenizer"
NOT_FOUND = "excluded-not-found.jsonl"
VOCABULARY_OPTIONS = {"lower_case", "positions", "min_patients"}
PRIVATE = 0o700  # the work folder holds the text as numbers
WAIT = 1.0  # seconds
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pretrained:
    """A pretrained encoder.

    Attributes:
        folder: the encoder, for `--encoder`.
        before: phase -> scores of the start on held-out documents at that phase's length.
        after: the same of the result.
        manifest: `pretraining.json` of the folder; empty in all but the first of several processes.
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
    """Train an encoder on text, or resume where the same call was killed.

    Args:
        sources: text files, tables, and folders of them.
        out: the encoder folder to write; must not exist.
        recipe: the settings.
        exclude: tables of what must not be read, see `read_exclusions`.
        work: folder for tokens, examples, checkpoints and the excluded ids that no document has;
            `OUT-work` by default. It holds the text as numbers: protect it as you protect the text.

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
    tokenizer = load_start_tokenizer(recipe.encoder) if recipe.encoder else None
    prepared = Prepared(corpus, recipe=recipe, tokenizer=tokenizer, work=work)
    run = _Run(recipe, prepared, work=work)
    first = is_first_process()
    with locked(run.folder) if first else nullcontext():
        checkpoint = run.train()
        if not first:
            return Pretrained(out, run.before, {}, {})
        network, adapters = run.network_at(checkpoint)
        network = adapters.merge_and_unload() if adapters else network
        manifest = new_manifest(recipe, manifest=prepared.manifest, start=run.start)
        manifest |= {"before": run.before, "after": run.scores(network)}
        manifest |= {"history": run.history, "speed": run.speed}
        dropout = run.start.dropout
        save_encoder(
            out, network=network, tokenizer=prepared.tokenizer, manifest=manifest, dropout=dropout
        )
        shutil.rmtree(run.folder)
    return Pretrained(out, manifest["before"], manifest["after"], manifest)


def _check_lengths(recipe: Recipe) -> None:
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


# --- preparing: each folder is made once and reused by every run that fits


class Prepared:
    """What training reads, in private folders of `work`; what is not there yet is written.

    Without a tokenizer a vocabulary is learned from the training side.

    Attributes:
        tokenizer: of the encoder.
        documents: side -> its documents.
        examples: phase -> side -> its examples.
        manifest: counts of what was read, left out and made.
        names: of the folders; they identify everything that the folders depend on.
    """

    def __init__(
        self,
        corpus: Corpus,
        *,
        recipe: Recipe,
        tokenizer: PreTrainedTokenizerBase | None,
        work: Path,
    ) -> None:
        self._corpus, self._recipe = corpus, recipe
        self._scratch = recipe.scratch or ScratchSettings()
        work.parent.mkdir(parents=True, exist_ok=True)
        work.mkdir(mode=PRIVATE, exist_ok=True)
        name = f"tokens-{_fingerprint(self._facts(tokenizer))}"
        folder = made_once(work / name, partial(self._write_tokens, tokenizer=tokenizer))
        self.tokenizer = tokenizer or BertTokenizer.from_pretrained(
            folder / TOKENIZER, local_files_only=True
        )
        self.documents = {side: Documents(folder, side=side) for side in SIDES}
        self.examples: dict[str, dict[str, Examples]] = {}
        self.names = [name]
        for phase, settings in recipe.phases.items():
            facts = {"tokens": name, "length": settings.length, "seed": recipe.training.seed}
            facts |= recipe.examples.model_dump(include={"pairs", "copies", "short"})
            made = made_once(
                work / f"examples-{settings.length}-{_fingerprint(facts)}",
                partial(self._write_examples, length=settings.length),
            )
            self.names.append(made.name)
            self.examples[phase] = {side: Examples(made, side=side) for side in SIDES}
        self.manifest = {
            "corpus": _read_json(folder / MANIFEST),
            "examples": {
                phase: {side: examples.counts() for side, examples in sides.items()}
                for phase, sides in self.examples.items()
            },
        }
        for kind, counts in self.manifest["corpus"]["exclusions"].items():
            if counts["not found"] and is_first_process():
                log.warning(
                    "%d of %d excluded %s values were not found in the corpus: check that they "
                    "are spelled alike; they are listed in %s",
                    *(counts["not found"], counts["listed"], kind, folder / NOT_FOUND),
                )

    def _facts(self, tokenizer: PreTrainedTokenizerBase | None) -> dict[str, Any]:
        """What the tokens depend on."""
        if tokenizer:
            backend = tokenizer.backend_tokenizer.to_str().encode()
            pieces = {"sha256": hashlib.sha256(backend).hexdigest()}
        else:
            pieces = self._scratch.model_dump(include={"vocabulary", *VOCABULARY_OPTIONS})
        return {"version": __version__, "corpus": self._corpus.facts(), "pieces": pieces}

    def _write_tokens(self, folder: Path, *, tokenizer: PreTrainedTokenizerBase | None) -> None:
        corpus = self._corpus
        if tokenizer is None:
            tokenizer = train_vocabulary(
                ((patient, sentences) for side, sentences, patient in corpus if side == TRAIN),
                size=self._scratch.vocabulary,
                **self._scratch.model_dump(include=VOCABULARY_OPTIONS),
            )
            tokenizer.save_pretrained(folder / TOKENIZER)
        read = ((side, sentences) for side, sentences, _ in corpus)
        write_documents(read, folder, tokenizer=tokenizer, sides=SIDES)
        tokens = {}
        for side in SIDES:
            frequencies = Documents(folder, side=side).frequencies(len(tokenizer))
            tokens[side] = int(frequencies.sum())
            if not tokens[side]:
                msg = f"the documents on the {side} side have no word in them"
                raise CorpusError(msg)
        with (folder / NOT_FOUND).open("w", encoding="utf-8") as file:
            for kind, name in corpus.exclusions.not_found():
                file.write(json.dumps({kind: name}) + "\n")
        write_json({**corpus.describe(), "tokens": tokens}, folder / MANIFEST)

    def _write_examples(self, folder: Path, *, length: int) -> None:
        settings = self._recipe.examples
        for side in SIDES:
            maker = ExampleMaker(
                self.documents[side],
                length=length,
                # Copies of held-out text would be counted twice.
                copies=1 if side == HELD_OUT else settings.copies,
                settings=settings,
                tokenizer=self.tokenizer,
                seed=self._recipe.training.seed,
            )
            write_examples(maker, folder, side=side, vocabulary=len(self.tokenizer))


def made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """A private folder that one process makes if it is not there; it appears when complete."""
    while not is_first_process() and not folder.is_dir():
        time.sleep(WAIT)
    if folder.is_dir():
        return folder
    with (folder.parent / LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            log.warning("another run prepares text in %s; waiting for it", folder.parent)
            fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            with folder_beside(folder) as temporary:
                temporary.chmod(PRIVATE)
                make(temporary)
                replace_folder(temporary, folder)
    return folder


def _fingerprint(facts: Mapping[str, Any]) -> str:
    text = json.dumps(facts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


# --- training


class _Run:
    """The training of one recipe on prepared examples, in a folder of its own in `work`."""

    def __init__(self, recipe: Recipe, prepared: Prepared, *, work: Path) -> None:
        self._recipe, self._prepared, plan = recipe, prepared, recipe.training
        if recipe.scratch:
            start = start_from_scratch(prepared.tokenizer, scratch=recipe.scratch, plan=plan)
        else:
            start = load_start(recipe.encoder or "", plan=plan)
        if start.fresh_head:
            rows = start.network.config.vocab_size
            start_output_layer(start.network, prepared.documents[TRAIN].frequencies(rows))
        self.start = start
        facts = {**recipe.model_dump(exclude={"card"}), "data": prepared.names}
        self.folder = work / f"run-{_fingerprint(facts | {'start': start.sha256})}"
        self.folder.mkdir(mode=PRIVATE, exist_ok=True)
        self._masker = Masker(
            prepared.tokenizer, **recipe.examples.model_dump(include={"masked", "whole_words"})
        )
        self._held_out = {
            name: HeldOut(sides[HELD_OUT], masker=self._masker, plan=plan)
            for name, sides in prepared.examples.items()
        }
        self.history: dict[str, list[dict[str, float]]] = {}
        self.speed: dict[str, dict[str, Any]] = {}

    def scores(self, network: PretrainingNetwork) -> dict[str, dict[str, float]]:
        """Scores on held-out documents at each phase's length."""
        network.to(_device())
        return {name: held.scores(network) for name, held in self._held_out.items()}

    def train(self) -> Path | None:
        """Run all phases, from where a killed run was; returns the last checkpoint."""
        file = self.folder / BEFORE
        self.before = _read_json(file) if file.is_file() else self.scores(self.start.network)
        if is_first_process():
            write_json(self.before, file)
        checkpoint = None
        for name in self._recipe.phases:
            checkpoint = self._train_phase(name, after=checkpoint)
        return checkpoint

    def network_at(self, checkpoint: Path | None) -> tuple[PretrainingNetwork, Any]:
        """A new network with the weights of a checkpoint or of the start, and its adapters.

        Each phase starts this way, whether the one before ran in this process or not.
        """
        recipe, network = self._recipe, copy.deepcopy(self.start.network)
        adapters = prepare(network, plan=recipe.training, pairs=recipe.examples.pairs)
        if checkpoint:
            load_model(network, checkpoint / "model.safetensors")
        return network, adapters

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
            network, _ = self.network_at(after)
            trainer = ObjectiveTrainer(
                network,
                objective,
                arguments=objective.arguments(folder),
                attention=phase.attention,
            )
            if checkpoint:
                log.info("phase %s resumes after step %d", name, checkpoint_step(checkpoint))
            start = time.perf_counter()
            trainer.train(resume_from_checkpoint=checkpoint)
            trainer.accelerator.wait_for_everyone()  # until the last checkpoint is complete
            if is_first_process():
                speed = objective.speed(
                    network,
                    seconds=time.perf_counter() - start - objective.scoring_seconds,
                    masked=self._recipe.examples.masked,
                    dtype=torch.bfloat16 if trainer.args.bf16 else torch.float32,
                )
                write_json(speed, folder / SPEED)
            checkpoint = folder / f"checkpoint-{phase.steps}"
        self.history[name] = _read_json(checkpoint / STATE)["log_history"]
        if (folder / SPEED).is_file():
            self.speed[name] = _read_json(folder / SPEED)
        return checkpoint


def _device() -> torch.device:
    """The device that the Trainer uses too."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
