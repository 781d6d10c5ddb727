"""What must not be read: the test side of a split, as patients, stays, notes or documents."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domainbert.encoders import file_sha256
from domainbert.pretraining.documents import IDS, CorpusError, id_text, texts_of
from domainbert.tables import iter_table, table_columns

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    import pandas as pd

    from domainbert.pretraining.documents import Document

HASH = "sha256"


def document_sha256(text: str) -> str:
    """The hash that names a document: SHA-256 of its words, whatever the white space between."""
    return hashlib.sha256(" ".join(text.split()).encode("utf-8", "replace")).hexdigest()


@dataclass(frozen=True)
class Exclusions:
    """Patients, stays, notes and documents that must not be read.

    Attributes:
        ids: kind of id -> the excluded ones, as strings.
        hashes: of excluded documents, see `document_sha256`.
        files: what it was read from: name, SHA-256 and what it excludes.
    """

    ids: Mapping[str, frozenset[str]] = field(default_factory=dict, repr=False)
    hashes: frozenset[str] = field(default_factory=frozenset, repr=False)
    files: tuple[dict[str, Any], ...] = ()

    @property
    def broadest(self) -> str | None:
        """The broadest kind of id, which every document must have to be told from them."""
        return next((kind for kind in IDS if kind in self.ids), None)

    def check(self, kinds: Collection[str], *, source: str) -> None:
        """Check that the documents of a source can be told from the excluded ones.

        Raises:
            CorpusError: they lack the broadest kind of id.
        """
        if self.broadest not in (None, *kinds):
            msg = (
                f"{source} has no {self.broadest}, and the exclusion list names documents by it: "
                f"add that column (or name it under [corpus]), or exclude by {HASH} alone"
            )
            raise CorpusError(msg)

    def reason(self, document: Document, sha256: str) -> str | None:
        """Why a document must not be read; None if it may be."""
        for kind, excluded in self.ids.items():
            if document.ids.get(kind) in excluded:
                return f"excluded by {kind}"
        if self.broadest and document.ids.get(self.broadest) is None:
            return f"without the {self.broadest} that exclusion needs"
        return "excluded by text" if sha256 in self.hashes else None


def read_exclusions(paths: Iterable[str | Path]) -> Exclusions:
    """Read exclusion lists.

    A list is a table with one or several of the columns `patient_id`, `stay_id`, `note_id`,
    `sha256` (of `document_sha256`) and `text` (a document, or a list of them, that is excluded
    itself). Where it has a column `split`, as a cohort has, its rows on other sides than "train"
    are excluded, else all are.

    Raises:
        CorpusError: a list that excludes nothing.
        TableError: a list that cannot be read.
    """
    ids: dict[str, set[str]] = {}
    hashes: set[str] = set()
    files = []
    for path in map(Path, paths):
        before = sum(map(len, ids.values())) + len(hashes)
        columns = [c for c in (*IDS, HASH, "text", "split") if c in table_columns(path)]
        if not set(columns) - {"split"}:
            named = ", ".join((*IDS, HASH))
            msg = f"{path.name} names nothing to exclude: it needs a column {named} or text"
            raise CorpusError(msg)
        for frame in iter_table(path, columns=columns):
            _collect(frame, ids=ids, hashes=hashes)
        added = sum(map(len, ids.values())) + len(hashes) - before
        if not added:
            msg = f"{path.name} excludes nothing: it has no ids outside the train side"
            raise CorpusError(msg)
        files.append({"file": path.name, "sha256": file_sha256(path), "names": added})
    frozen = {kind: frozenset(ids[kind]) for kind in IDS if ids.get(kind)}
    return Exclusions(ids=frozen, hashes=frozenset(hashes), files=tuple(files))


def _collect(frame: pd.DataFrame, *, ids: dict[str, set[str]], hashes: set[str]) -> None:
    if "split" in frame.columns:
        frame = frame[frame["split"].notna() & (frame["split"] != "train")]
    for kind in IDS:
        if kind in frame.columns:
            found = {id_text(value) for value in frame[kind]}
            ids.setdefault(kind, set()).update(one for one in found if one is not None)
    if HASH in frame.columns:
        hashes.update(str(value).lower() for value in frame[HASH].dropna())
    if "text" in frame.columns:
        hashes.update(document_sha256(text) for cell in frame["text"] for text in texts_of(cell))
