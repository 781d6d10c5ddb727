"""A tokenizer for one more language: its pieces, and what they mean in the first one."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from domainbert.encoders import quiet
from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scipy.sparse import csr_matrix
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

ROUNDS = 6  # of expectation maximisation
_UNKNOWN = "[UNK]"


def extend_tokenizer(
    tokenizer: PreTrainedTokenizerBase,
    translations: Sequence[str],
    *,
    sources: Sequence[str],
    pieces: int,
) -> PreTrainedTokenizerBase:
    """The tokenizer with pieces of another language added behind its own.

    The pieces are learnt by WordPiece from the translations, as the tokenizer normalises and
    splits them. Those that would change how a source sentence is read are left out.

    Args:
        tokenizer: a WordPiece tokenizer.
        translations: sentences in the new language.
        sources: sentences in the tokenizer's own.
        pieces: to learn at most.

    Raises:
        UserError: a tokenizer of another kind, or no piece that is new.
    """
    from tokenizers import Tokenizer, models, trainers

    own = tokenizer.backend_tokenizer
    if not isinstance(own.model, models.WordPiece):
        kind = type(own.model).__name__
        msg = f"a vocabulary can be added to WordPiece tokenizers, not to {kind}; try another model"
        raise UserError(msg)
    learnt = Tokenizer(models.WordPiece(unk_token=_UNKNOWN))
    learnt.normalizer, learnt.pre_tokenizer = own.normalizer, own.pre_tokenizer
    trainer = trainers.WordPieceTrainer(
        vocab_size=pieces, min_frequency=2, show_progress=False, special_tokens=[_UNKNOWN]
    )
    learnt.train_from_iterator(translations, trainer)
    known = own.get_vocab()
    by_number = sorted(learnt.get_vocab().items(), key=lambda entry: entry[1])
    new = [piece for piece, _ in by_number if piece not in known]
    # Without a piece that changes a source sentence, a shorter one may change it.
    changing = set(new)
    while changing:
        extended = _with_pieces(tokenizer, new)
        read = {piece for encoding in _encoded(extended, sources) for piece in encoding.tokens}
        changing = read.intersection(new)
        new = [piece for piece in new if piece not in changing]
    if not new:
        raise UserError("the translations have no piece that the teacher's vocabulary lacks")
    return extended


def start_vectors(
    network: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    first: int,
    sources: Sequence[str],
    translations: Sequence[str],
) -> None:
    """Resize the embedding table of a network, in place, and fill the rows of the new pieces.

    A new piece starts as the mean of the pieces that it is aligned with, scaled to the usual
    length of a row. One without alignment starts as the mean of the others.

    Args:
        network: an encoder without the new pieces.
        tokenizer: from `extend_tokenizer`.
        first: number of the first new piece, see `next_piece`.
        sources: sentences in the network's language.
        translations: of each.
    """
    import torch

    table = network.get_input_embeddings().weight.detach().cpu().numpy()
    size = next_piece(tokenizer)
    chances = align(
        [np.array(encoding.ids) for encoding in _encoded(tokenizer, translations)],
        [np.array(encoding.ids) for encoding in _encoded(tokenizer, sources)],
        size=size,
    )
    rows = np.asarray(chances[first:, :first] @ table[:first])
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    aligned = lengths[:, 0] > 0
    usual = np.linalg.norm(table, axis=1).mean()
    rows[aligned] *= usual / lengths[aligned]
    rows[~aligned] = rows[aligned].mean(axis=0) if aligned.any() else table.mean(axis=0)
    with quiet():
        network.resize_token_embeddings(size, mean_resizing=False)
    with torch.no_grad():
        weights = network.get_input_embeddings().weight
        weights[first:] = torch.from_numpy(rows.astype(np.float32)).to(weights.device)


def align(
    first: Sequence[np.ndarray], second: Sequence[np.ndarray], *, size: int, rounds: int = ROUNDS
) -> csr_matrix:
    """The chance that a piece of the first language is translated by one of the second.

    IBM's first model (Brown et al. 1993) by expectation maximisation: each piece of the second
    sentence comes from one piece of the first, or from none.

    Args:
        first: token ids of sentences, each of shape (tokens,).
        second: token ids of their translations.
        size: of the vocabulary of both.
        rounds: of expectation maximisation.

    Returns:
        Shape (size, size); the rows of pieces that occur sum to 1.
    """
    from scipy.sparse import csr_matrix

    nothing = size
    froms, tos, places, count = [], [], [], 0
    for a, b in zip(first, second, strict=True):
        a = np.append(a, nothing)
        froms.append(np.tile(a, len(b)))
        tos.append(np.repeat(b, len(a)))
        places.append(np.repeat(np.arange(count, count + len(b)), len(a)))
        count += len(b)
    place = np.concatenate(places)
    keys = np.concatenate(froms).astype(np.int64) * size + np.concatenate(tos)
    pairs, pair = np.unique(keys, return_inverse=True)
    source, target = np.divmod(pairs, size)
    chance = np.ones(len(pairs))
    for _ in range(rounds):
        share = chance[pair]
        share /= np.bincount(place, share, count)[place]
        total = np.bincount(pair, share, len(pairs))
        chance = total / np.bincount(source, total)[source]
    kept = source != nothing
    return csr_matrix((chance[kept], (source[kept], target[kept])), shape=(size, size))


def next_piece(tokenizer: PreTrainedTokenizerBase) -> int:
    """The number that a new piece gets: one more than the largest."""
    return 1 + max(tokenizer.get_vocab().values())


def _encoded(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> Any:
    return tokenizer.backend_tokenizer.encode_batch(list(texts), add_special_tokens=False)


def _with_pieces(
    tokenizer: PreTrainedTokenizerBase, pieces: Sequence[str]
) -> PreTrainedTokenizerBase:
    """A copy with more pieces, made as any tokenizer is loaded: from its files."""
    from transformers import AutoTokenizer

    with tempfile.TemporaryDirectory() as folder, quiet():
        tokenizer.save_pretrained(folder)
        file = Path(folder) / "tokenizer.json"
        document = json.loads(file.read_text("utf-8"))
        vocabulary = document["model"]["vocab"]
        first = next_piece(tokenizer)
        vocabulary |= {piece: number for number, piece in enumerate(pieces, start=first)}
        file.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
        extended = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    extended.backend_tokenizer.no_truncation()
    extended.backend_tokenizer.no_padding()
    return extended
