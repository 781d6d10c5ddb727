"""Corpus -> tokens -> examples, each written once and used again by every run that fits."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert import __version__
from domainbert.errors import UserError
from domainbert.files import write_json
from domainbert.pretraining.corpus import HELD_OUT, SIDES, TRAIN, Corpus, CorpusError
from domainbert.pretraining.examples import NO_PAIR, ExampleMaker, Examples, write_examples
from domainbert.pretraining.store import fingerprint, made_once, read_json
from domainbert.pretraining.tokens import Documents, write_documents
from domainbert.pretraining.vocabulary import train_vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from transformers import PreTrainedTokenizerBase

    from domainbert.pretraining.recipe import Recipe

MANIFEST = "manifest.json"
TOKENIZER = "tokenizer"


@dataclass(frozen=True)
class Prepared:
    """What training reads.

    Attributes:
        tokenizer: of the encoder.
        documents: side -> its documents.
        examples: phase -> side -> its examples.
        manifest: what was read, left out and made.
        names: of the folders, which stand for all that they were made of.
    """

    tokenizer: PreTrainedTokenizerBase = field(repr=False)
    documents: Mapping[str, Documents] = field(repr=False)
    examples: Mapping[str, Mapping[str, Examples]] = field(repr=False)
    manifest: Mapping[str, Any] = field(repr=False)
    names: tuple[str, ...] = ()


def prepare_examples(
    corpus: Corpus, *, recipe: Recipe, tokenizer: PreTrainedTokenizerBase | None, work: Path
) -> Prepared:
    """Write what is not written yet, and open it.

    Args:
        corpus: is read only where its tokens are not there yet.
        recipe: says the phases and how examples are made.
        tokenizer: of the encoder; None trains a vocabulary on the training side.
        work: the folder for all this. What is in it can be read as the corpus can.

    Raises:
        CorpusError: nothing left to read, a side without documents, or pairs of one document.
    """
    facts = _facts(corpus, recipe, tokenizer)
    name = f"tokens-{fingerprint(facts)}"
    folder = made_once(work / name, lambda made: _write_tokens(corpus, recipe, tokenizer, made))
    opened = tokenizer or _read_tokenizer(folder / TOKENIZER)
    documents = {side: Documents(folder, side=side) for side in SIDES}
    examples, manifests, names = {}, {}, [name]
    for phase in recipe.phases:
        maker = _ExampleFolder(recipe, phase, documents, opened)
        made = made_once(work / maker.name(name), maker.write)
        names.append(made.name)
        examples[phase] = {side: Examples(made, side=side) for side in SIDES}
        manifests[phase] = read_json(made / MANIFEST)
    manifest = {"corpus": read_json(folder / MANIFEST), "examples": manifests}
    return Prepared(opened, documents, examples, manifest, tuple(names))


def _facts(
    corpus: Corpus, recipe: Recipe, tokenizer: PreTrainedTokenizerBase | None
) -> dict[str, Any]:
    described = corpus.describe()
    if tokenizer is None:
        scratch = asdict(recipe.scratch) if recipe.scratch else {}
        pieces = {name: scratch.get(name) for name in ("vocabulary", "lower_case", "positions")}
    else:
        backend = tokenizer.backend_tokenizer.to_str().encode()
        pieces = {"sha256": hashlib.sha256(backend).hexdigest()}
    return {
        "version": __version__,
        "sources": described["sources"],
        "exclusions": described["exclusions"],
        "corpus": asdict(corpus.settings),
        "pieces": pieces,
    }


def _write_tokens(
    corpus: Corpus, recipe: Recipe, tokenizer: PreTrainedTokenizerBase | None, folder: Path
) -> None:
    if tokenizer is None:
        tokenizer = _new_tokenizer(corpus, recipe)
        tokenizer.save_pretrained(folder / TOKENIZER)
    write_documents(corpus, folder, tokenizer=tokenizer, sides=SIDES)
    sides = {side: Documents(folder, side=side) for side in SIDES}
    for side, documents in sides.items():
        if not len(documents):
            msg = f"the documents on the {side} side have no word in them"
            raise CorpusError(msg)
    tokens = {side: int(d.frequencies(len(tokenizer)).sum()) for side, d in sides.items()}
    write_json({**corpus.describe(), "tokens": tokens}, folder / MANIFEST)


def _new_tokenizer(corpus: Corpus, recipe: Recipe) -> PreTrainedTokenizerBase:
    if recipe.scratch is None:
        msg = "without an encoder the recipe needs a table [scratch]"
        raise UserError(msg)
    return train_vocabulary(
        _TrainingSentences(corpus),
        size=recipe.scratch.vocabulary,
        lower_case=recipe.scratch.lower_case,
        positions=recipe.scratch.positions,
    )


@dataclass(frozen=True)
class _TrainingSentences:
    """May be read again and again."""

    corpus: Corpus

    def __iter__(self) -> Iterator[str]:
        return (s for side, sentences in self.corpus if side == TRAIN for s in sentences)


def _read_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    from transformers import BertTokenizer

    return BertTokenizer.from_pretrained(folder, local_files_only=True)


@dataclass(frozen=True)
class _ExampleFolder:
    """The examples of one phase."""

    recipe: Recipe
    phase: str
    documents: Mapping[str, Documents]
    tokenizer: PreTrainedTokenizerBase

    def name(self, tokens: str) -> str:
        """Of the folder."""
        settings = self.recipe.examples
        facts = {
            "tokens": tokens,
            "length": self._length,
            "seed": self.recipe.training.seed,
            "pairs": settings.pairs,
            "copies": settings.copies,
            "short": settings.short,
        }
        return f"examples-{self._length}-{fingerprint(facts)}"

    @property
    def _length(self) -> int:
        return self.recipe.phases[self.phase].length

    def write(self, folder: Path) -> None:
        """Write both sides and what is in them."""
        manifest = {}
        for side in SIDES:
            settings = self.recipe.examples
            maker = ExampleMaker(
                self.documents[side],
                length=self._length,
                # Copies of held-out text would be counted twice.
                copies=1 if side == HELD_OUT else settings.copies,
                settings=settings,
                tokenizer=self.tokenizer,
                seed=self.recipe.training.seed,
            )
            write_examples(maker, folder, side=side, vocabulary=len(self.tokenizer))
            made = Examples(folder, side=side)
            pairs = made.labels[made.labels != NO_PAIR]
            manifest[side] = {
                "examples": len(made),
                "tokens": int(made.lengths.sum()),
                "pairs": len(pairs),
                "true pairs": int((pairs == 0).sum()),
            }
        write_json(manifest, folder / MANIFEST)
