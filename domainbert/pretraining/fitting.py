"""pretrain(): a corpus and a recipe -> an encoder folder; a killed run can be resumed."""

from __future__ import annotations

import copy
import fcntl
import hashlib
import json
import logging
import os
import shutil
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from domainbert import __version__
from domainbert.encoders import find_encoder, load_config, window_limit
from domainbert.errors import UserError
from domainbert.files import folder_beside, replace_folder, write_json
from domainbert.locks import locked
from domainbert.pretraining.corpus import (
    HELD_OUT,
    SIDES,
    TRAIN,
    Corpus,
    CorpusError,
    read_exclusions,
)
from domainbert.pretraining.examples import NO_PAIR, ExampleMaker, Examples, Masker, write_examples
from domainbert.pretraining.model import (
    load_start,
    load_start_tokenizer,
    prepare,
    start_from_scratch,
    start_output_layer,
)
from domainbert.pretraining.objective import HeldOut, MaskedWords
from domainbert.pretraining.report import check_free, new_manifest, save_encoder
from domainbert.pretraining.settings import Recipe
from domainbert.pretraining.tokens import Documents, train_vocabulary, write_documents
from domainbert.training.checkpoints import STATE, checkpoint_step, last_checkpoint
from domainbert.training.processes import is_first_process
from domainbert.training.trainer import ObjectiveTrainer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from transformers import PreTrainedTokenizerBase

    from domainbert.pretraining.model import PretrainingNetwork, Start

BEFORE, SPEED, MANIFEST, TOKENIZER = "before.json", "speed.json", "manifest.json", "tokenizer"
NOT_FOUND = "excluded-not-found.jsonl"
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
        manifest: how it was made; `pretraining.json` in the folder. Empty in all but the first of
            several processes.
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
        sources: text and table files, and folders of them.
        out: the encoder folder to write; must not exist.
        recipe: the settings.
        exclude: tables of what must not be read, see `read_exclusions`. Listed ids that no
            document has are written to a file in `work`.
        work: folder for tokens, examples and checkpoints, readable by its owner alone; `OUT-work`
            by default. The examples stay there for the next run. They are the text as numbers:
            protect them as you protect the text.

    Raises:
        CorpusError: no text, all of it excluded, or documents that cannot be told from the
            excluded ones.
        EncoderError: no such encoder, or not a BERT.
        FileExistsError: `out` exists.
        OSError: `out` cannot be written.
        TableError: a table that cannot be read.
        UserError: a length that the encoder cannot read, or another process trains this recipe.
    """
    out, recipe = Path(out), recipe or Recipe()
    check_free(out)
    with folder_beside(out):
        pass  # refuses a place that cannot be written before training, not after
    _check_lengths(recipe)
    work = Path(work) if work else out.with_name(f"{out.name}-work")
    corpus = Corpus(sources, settings=recipe.corpus, exclusions=read_exclusions(exclude))
    tokenizer = load_start_tokenizer(recipe.encoder) if recipe.encoder else None
    prepared = prepare_examples(corpus, recipe=recipe, tokenizer=tokenizer, work=work)
    _warn_of_not_found(prepared, work)
    run = _Run(recipe, prepared, work=work)
    with ExitStack() as stack:
        if is_first_process():
            stack.enter_context(locked(run.folder))
        checkpoint = run.train()
        if not is_first_process():
            return Pretrained(out, run.before, {}, {})
        network = run.merged(checkpoint)
        manifest = new_manifest(recipe, manifest=prepared.manifest, start=run.start)
        manifest |= {"before": run.before, "after": run.scores(network)}
        manifest |= {"history": run.history, "speed": run.speed}
        save_encoder(
            out,
            network=network,
            tokenizer=prepared.tokenizer,
            manifest=manifest,
            dropout=run.start.dropout,
        )
        shutil.rmtree(run.folder)
    return Pretrained(out, manifest["before"], manifest["after"], manifest)


def _check_lengths(recipe: Recipe) -> None:
    """Refuse sequences longer than the encoder's positions, before any text is read."""
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


def _warn_of_not_found(prepared: Prepared, work: Path) -> None:
    for kind, counts in prepared.manifest["corpus"]["exclusions"].items():
        if counts["not found"] and is_first_process():
            log.warning(
                "%d of %d excluded %s values were not found in the corpus: check that they are "
                "spelled alike; they are listed in %s",
                *(counts["not found"], counts["listed"], kind),
                work / prepared.names[0] / NOT_FOUND,
            )


# --- preparing: each folder is made once and used again by every run that fits


@dataclass(frozen=True)
class Prepared:
    """What training reads.

    Attributes:
        tokenizer: of the encoder.
        documents: side -> its documents.
        examples: phase -> side -> its examples.
        manifest: counts of what was read, left out and made.
        names: of the folders; they identify everything that the folders depend on.
    """

    tokenizer: PreTrainedTokenizerBase = field(repr=False)
    documents: Mapping[str, Documents] = field(repr=False)
    examples: Mapping[str, Mapping[str, Examples]] = field(repr=False)
    manifest: Mapping[str, Any] = field(repr=False)
    names: tuple[str, ...] = ()


def prepare_examples(
    corpus: Corpus, *, recipe: Recipe, tokenizer: PreTrainedTokenizerBase | None, work: Path
) -> Prepared:
    """Write tokens and examples that are not there yet, and open them.

    Without a tokenizer a vocabulary is learned from the training side.

    Raises:
        CorpusError: nothing left to read, a side without documents, or pairs of one document.
    """
    work.parent.mkdir(parents=True, exist_ok=True)
    work.mkdir(mode=PRIVATE, exist_ok=True)
    name = f"tokens-{_fingerprint(_facts(corpus, recipe, tokenizer))}"
    folder = made_once(work / name, lambda made: _write_tokens(corpus, recipe, tokenizer, made))
    opened = tokenizer or _read_tokenizer(folder / TOKENIZER)
    documents = {side: Documents(folder, side=side) for side in SIDES}
    examples, manifests, names = {}, {}, [name]
    for phase, settings in recipe.phases.items():
        facts = {"tokens": name, "length": settings.length, "seed": recipe.training.seed}
        facts |= recipe.examples.model_dump(include={"pairs", "copies", "short"})
        write = partial(
            _write_examples,
            length=settings.length,
            documents=documents,
            recipe=recipe,
            tokenizer=opened,
        )
        made = made_once(work / f"examples-{settings.length}-{_fingerprint(facts)}", write)
        names.append(made.name)
        examples[phase] = {side: Examples(made, side=side) for side in SIDES}
        manifests[phase] = _read_json(made / MANIFEST)
    manifest = {"corpus": _read_json(folder / MANIFEST), "examples": manifests}
    return Prepared(opened, documents, examples, manifest, tuple(names))


def made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """A folder that is made if it is not there, by one process; others wait for it.

    It appears when it is complete, readable by its owner alone.
    """
    while not is_first_process() and not folder.is_dir():
        time.sleep(WAIT)
    if folder.is_dir():
        return folder
    with _alone(folder.parent):
        if not folder.is_dir():
            with folder_beside(folder) as temporary:
                temporary.chmod(PRIVATE)
                make(temporary)
                replace_folder(temporary, folder)
    return folder


@contextmanager
def _alone(work: Path) -> Iterator[None]:
    """Wait until no other run prepares text in this folder, and hold it."""
    with (work / ".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            log.warning("another run prepares text in %s; waiting for it", work)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fingerprint(facts: Mapping[str, Any]) -> str:
    """Twelve letters and digits that identify these facts."""
    text = json.dumps(facts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _facts(
    corpus: Corpus, recipe: Recipe, tokenizer: PreTrainedTokenizerBase | None
) -> dict[str, Any]:
    if tokenizer is None:
        names = {"vocabulary", "min_patients", "lower_case", "positions"}
        pieces = recipe.scratch.model_dump(include=names) if recipe.scratch else {}
    else:
        backend = tokenizer.backend_tokenizer.to_str().encode()
        pieces = {"sha256": hashlib.sha256(backend).hexdigest()}
    return {"version": __version__, "corpus": corpus.facts, "pieces": pieces}


def _write_tokens(
    corpus: Corpus, recipe: Recipe, tokenizer: PreTrainedTokenizerBase | None, folder: Path
) -> None:
    if tokenizer is None:
        if recipe.scratch is None:
            msg = "without an encoder the recipe needs a table [scratch]"
            raise UserError(msg)
        tokenizer = train_vocabulary(
            ((patient, sentences) for side, sentences, patient in corpus if side == TRAIN),
            size=recipe.scratch.vocabulary,
            lower_case=recipe.scratch.lower_case,
            positions=recipe.scratch.positions,
            min_patients=recipe.scratch.min_patients,
        )
        tokenizer.save_pretrained(folder / TOKENIZER)
    read = ((side, sentences) for side, sentences, _ in corpus)
    write_documents(read, folder, tokenizer=tokenizer, sides=SIDES)
    sides = {side: Documents(folder, side=side) for side in SIDES}
    for side, documents in sides.items():
        if not len(documents):
            msg = f"the documents on the {side} side have no word in them"
            raise CorpusError(msg)
    with (folder / NOT_FOUND).open("w", encoding="utf-8") as file:
        for kind, name in corpus.exclusions.not_found():
            file.write(json.dumps({kind: name}) + "\n")
    tokens = {side: int(d.frequencies(len(tokenizer)).sum()) for side, d in sides.items()}
    write_json({**corpus.describe(), "tokens": tokens}, folder / MANIFEST)


def _read_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    from transformers import BertTokenizer

    return BertTokenizer.from_pretrained(folder, local_files_only=True)


def _write_examples(
    folder: Path,
    *,
    length: int,
    documents: Mapping[str, Documents],
    recipe: Recipe,
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    """Write the examples of one length, both sides."""
    manifest = {}
    for side in SIDES:
        maker = ExampleMaker(
            documents[side],
            length=length,
            # Copies of held-out text would be counted twice.
            copies=1 if side == HELD_OUT else recipe.examples.copies,
            settings=recipe.examples,
            tokenizer=tokenizer,
            seed=recipe.training.seed,
        )
        write_examples(maker, folder, side=side, vocabulary=len(tokenizer))
        made = Examples(folder, side=side)
        pairs = made.labels[made.labels != NO_PAIR]
        manifest[side] = {
            "examples": len(made),
            "tokens": int(made.lengths.sum()),
            "pairs": len(pairs),
            "true pairs": int((pairs == 0).sum()),
        }
    write_json(manifest, folder / MANIFEST)


# --- training


class _Run:
    """The training of one recipe on prepared examples, in a folder of its own in `work`."""

    def __init__(self, recipe: Recipe, prepared: Prepared, *, work: Path) -> None:
        self._recipe, self._prepared, plan = recipe, prepared, recipe.training
        self.start = self._new_start()
        facts = {**recipe.model_dump(exclude={"card"}), "data": prepared.names}
        self.folder = work / f"run-{_fingerprint(facts | {'start': self.start.sha256})}"
        self.folder.mkdir(mode=PRIVATE, exist_ok=True)
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
        return {name: held.scores(network) for name, held in self._held_out.items()}

    def train(self) -> Path | None:
        """Run all phases, from wherever a killed run was; returns the last checkpoint."""
        file = self.folder / BEFORE
        self.before = _read_json(file) if file.is_file() else self.scores(self.start.network)
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

        A phase always begins this way, whether the phase before ran in this process or not.
        """
        recipe, network = self._recipe, copy.deepcopy(self.start.network)
        adapters = prepare(network, plan=recipe.training, pairs=recipe.examples.pairs)
        if checkpoint:
            _load_weights(network, checkpoint)
        return network, adapters

    def _train_phase(self, name: str, *, after: Path | None) -> Path:
        """Train a phase to its end; returns its last checkpoint."""
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
            trainer = ObjectiveTrainer(
                self._network_at(after)[0],
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
                    self.start.network.config,
                    seconds=time.perf_counter() - start - objective.scoring_seconds,
                    masked=self._recipe.examples.masked,
                    device=_device(),
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


def _load_weights(network: PretrainingNetwork, checkpoint: Path) -> None:
    from safetensors.torch import load_file

    missing, unexpected = network.load_state_dict(
        load_file(checkpoint / "model.safetensors"), strict=False
    )
    tied = set(network.all_tied_weights_keys)
    if lost := [*unexpected, *(name for name in missing if name not in tied)]:
        msg = f"{checkpoint}: {len(lost)} weights are missing or unknown; remove it and start again"
        raise UserError(msg)
