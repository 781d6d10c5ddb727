"""A WordPiece vocabulary from one's own text."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from transformers import PreTrainedTokenizerBase

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CONTINUES = "##"
# Characters that have pieces, at most so many and this share of all pieces: the commonest.
ALPHABET, ALPHABET_SHARE = 1000, 1 / 3
# A longer piece must stand there so often.
FREQUENCY = 2


def train_vocabulary(
    sentences: Iterable[str], *, size: int, lower_case: bool, positions: int = 512
) -> PreTrainedTokenizerBase:
    """A BERT tokenizer whose pieces are learnt from sentences; the same ones give the same pieces.

    Args:
        sentences: text to learn from; is read twice, so no iterator.
        size: pieces at most, special ones counted; a small corpus gives fewer.
        lower_case: whether words are lower-cased and lose their accents.
        positions: what the encoder can read, for the tokenizer's `model_max_length`.

    Raises:
        TypeError: an iterator.
        ValueError: the sentences have no characters.
    """
    from tokenizers import Tokenizer, models, trainers
    from transformers import BertTokenizer

    if iter(sentences) is sentences:
        msg = "the sentences are read twice, and an iterator can be read once: give a list"
        raise TypeError(msg)
    # The empty one only lends its way to normalise and to part words.
    plain = BertTokenizer(do_lower_case=lower_case).backend_tokenizer
    counts: Counter[str] = Counter()
    for sentence in sentences:
        counts.update(plain.normalizer.normalize_str(sentence))
    del counts[" "]
    if not counts:
        msg = "there is no text to learn a vocabulary from"
        raise UserError(msg)
    most = min(ALPHABET, int(size * ALPHABET_SHARE))
    # Left to itself the library numbers characters at random, and breaks ties by their numbers.
    alphabet = sorted(sorted(counts), key=counts.__getitem__, reverse=True)[:most]
    learner = Tokenizer(models.WordPiece(unk_token=SPECIAL[1]))
    learner.normalizer, learner.pre_tokenizer = plain.normalizer, plain.pre_tokenizer
    learner.train_from_iterator(
        sentences,
        trainers.WordPieceTrainer(
            vocab_size=size,
            min_frequency=FREQUENCY,
            limit_alphabet=0,
            special_tokens=[*SPECIAL, *alphabet, *(CONTINUES + letter for letter in alphabet)],
            continuing_subword_prefix=CONTINUES,
            show_progress=False,
        ),
    )
    in_order = dict(sorted(learner.get_vocab().items(), key=lambda item: item[1]))
    return BertTokenizer(vocab=in_order, do_lower_case=lower_case, model_max_length=positions)
