"""A corpus: its documents without the excluded, as sentences without the repeated ones."""

from __future__ import annotations

import hashlib
import logging
import re
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any

from domainbert.encoders import file_sha256
from domainbert.errors import UserError
from domainbert.pretraining.documents import CorpusError, corpus_files, read_documents
from domainbert.pretraining.exclusion import Exclusions, document_sha256
from domainbert.pretraining.sentences import split_sentences
from domainbert.pretraining.settings import CorpusSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from domainbert.pretraining.documents import Document

TRAIN, HELD_OUT = "train", "held-out"
SIDES = (TRAIN, HELD_OUT)
# A shorter sentence may stand in many documents: headings, "no known allergies".
REPEATED_WORDS = 5
# More of a text than this in bytes that are not UTF-8: it is none.
UNREADABLE = 0.05
log = logging.getLogger(__name__)


class Corpus:
    """The sentences of a corpus, document by document; may be read several times.

    What is left out, and is counted in `counts`: excluded documents, those without text, those
    that are not UTF-8, those that stood there before; and sentences of five words or more that
    stood in an earlier document, so that copied text is learnt once and held-out documents share
    none with the others. To know them takes about 100 bytes of memory a sentence.

    Args:
        sources: files and folders, see `domainbert.pretraining.documents`.
        settings: see `CorpusSettings`.
        exclusions: what must not be read.

    Raises:
        CorpusError: no text there; documents that cannot be told from the excluded ones.
        TableError: a table without its column of text.
    """

    def __init__(
        self,
        sources: Iterable[str | Path],
        *,
        settings: CorpusSettings | None = None,
        exclusions: Exclusions | None = None,
    ) -> None:
        self.files = corpus_files(sources)
        self.settings = settings or CorpusSettings()
        self.exclusions = exclusions or Exclusions()
        self.counts: Counter[str] = Counter()
        try:
            self._erase = re.compile(self.settings.erase) if self.settings.erase else None
        except re.error as error:
            msg = f"erase is no regular expression: {error}"
            raise UserError(msg) from None
        for file in self.files:
            self.exclusions.check(file.kinds(self.settings), source=file.path.name)

    def __iter__(self) -> Iterator[tuple[str, list[str]]]:
        """Each document that may be read: its side, `TRAIN` or `HELD_OUT`, and its sentences.

        Raises:
            CorpusError: at the end, a side without documents.
        """
        self.counts = Counter()
        seen: set[bytes] = set()
        for file in self.files:
            for document in read_documents(file, settings=self.settings):
                self.counts["documents"] += 1
                sha256 = document_sha256(document.text)
                if reason := self._reason(document, sha256, seen):
                    self.counts[f"documents {reason}"] += 1
                    continue
                sentences = self._sentences(document.text, seen)
                if not sentences:
                    self.counts["documents of repeated sentences alone"] += 1
                    continue
                side = self._side(document, sha256)
                self.counts[f"{side} documents"] += 1
                yield side, sentences
        self._check()

    def _reason(self, document: Document, sha256: str, seen: set[bytes]) -> str | None:
        """Why a document is left out, or None; remembers it if it is not."""
        if not document.text.strip():
            return "without text"
        if reason := self.exclusions.reason(document, sha256):
            return reason
        strange = document.text.count("\ufffd") + document.text.count("\0")
        if strange > UNREADABLE * len(document.text):
            return "that are not UTF-8"
        name = bytes.fromhex(sha256)
        if name in seen:
            return "that stood there before"
        seen.add(name)
        return None

    def _side(self, document: Document, sha256: str) -> str:
        known = (one for one in document.ids.values() if one is not None)
        digest = hashlib.blake2b(next(known, sha256).encode("utf-8", "replace"), digest_size=8)
        place = int.from_bytes(digest.digest()) / 2**64
        return HELD_OUT if place < self.settings.held_out else TRAIN

    def _sentences(self, text: str, seen: set[bytes]) -> list[str]:
        """The sentences that no earlier document has."""
        kept, here = [], set()
        for sentence in split_sentences(text):
            if self._erase:
                sentence = " ".join(self._erase.sub(" ", sentence).split())
            if not sentence:
                continue
            if sentence.count(" ") + 1 >= REPEATED_WORDS:
                words = sentence.casefold().encode("utf-8", "replace")
                digest = hashlib.blake2b(words, digest_size=8).digest()
                if digest in seen:
                    self.counts["sentences that stood there before"] += 1
                    continue
                here.add(digest)
            kept.append(sentence)
        seen |= here
        self.counts["sentences"] += len(kept)
        return kept

    def _check(self) -> None:
        listed = ", ".join(f"{count} {what}" for what, count in sorted(self.counts.items()))
        if not self.counts[f"{TRAIN} documents"] + self.counts[f"{HELD_OUT} documents"]:
            msg = f"the corpus has no document to read: {listed or 'its files are empty'}"
            raise CorpusError(msg)
        for side in SIDES:
            if not self.counts[f"{side} documents"]:
                msg = (
                    f"no document is on the {side} side: {listed}; change held_out (now "
                    f"{self.settings.held_out:g}), or, if documents are not told apart, set "
                    'documents = "block" or lines = 20 under [corpus]'
                )
                raise CorpusError(msg)
        if self.exclusions.files and not any("excluded by" in what for what in self.counts):
            log.warning("no document is on the exclusion list: are its ids written alike?")

    def describe(self) -> dict[str, Any]:
        """What it is made of, with hashes, what was excluded, and the last reading's counts."""
        return {
            "sources": self._sources,
            "exclusions": list(self.exclusions.files),
            "counts": dict(self.counts),
        }

    @cached_property
    def _sources(self) -> list[dict[str, Any]]:
        """Named files, and folders as a whole: a file's name may be a patient's."""
        hashes: dict[Path, list[str]] = {}
        for file in self.files:
            hashes.setdefault(file.folder or file.path, []).append(file_sha256(file.path))
        return [
            {
                "name": source.name,
                "files": len(parts),
                "sha256": parts[0] if len(parts) == 1 else _joint_sha256(parts),
            }
            for source, parts in hashes.items()
        ]


def _joint_sha256(parts: list[str]) -> str:
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()
