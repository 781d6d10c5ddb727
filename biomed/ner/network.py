"""One network: words -> the log-probability of each tag."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from biomed.folder import BiomedFolder
from biomed.ner.decoding import TagScheme, best_path
from biomed.ner.reading import Pieces, WordReader, best_window, cut

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


TASK = "entities"
TRAIN_COMMAND = "biomed ner train CORPUS --encoder {encoder} --out MODEL"


@dataclass(frozen=True)
class EntitySettings:
    """What an entity model does around its network.

    Attributes:
        window: tokens of a window at most, [CLS] and [SEP] counted; None is the encoder's limit.
        overlap: tokens that consecutive windows share; None is an eighth of the window.
    """

    window: int | None = None
    overlap: int | None = None


class WordTagger(BiomedFolder):
    """A network for token classification that reads each word at its first piece.

    Args:
        network: Hugging Face's token classifier, its outputs named in IOB2.
        tokenizer: its fast tokenizer.
        settings: windows.
        device: where to run; by default CUDA where there is one, else the CPU.
        batch_tokens: tokens of one batch, padding counted; by default by device.

    Raises:
        ValueError: outputs that are not IOB2 tags, or windows that the encoder cannot read.
    """

    task, train_command, settings_class = TASK, TRAIN_COMMAND, EntitySettings

    def __init__(
        self,
        network: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        settings: EntitySettings | None = None,
        device: str | torch.device | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        super().__init__(
            network, tokenizer, settings=settings, device=device, batch_tokens=batch_tokens
        )
        names = network.config.id2label
        self.scheme = TagScheme.of([names[number] for number in sorted(names)])
        self.labels = self.scheme.labels
        self.reader = WordReader(tokenizer)
        self.window = self.window_tokens()
        self.overlap = self.window // 8 if self.settings.overlap is None else self.settings.overlap
        cut(0, window=self.window, overlap=self.overlap)  # raises what it has to say

    def __repr__(self) -> str:
        """Name the parts."""
        return f"WordTagger({', '.join(self.scheme.types)}, window={self.window})"

    @classmethod
    def network_class(cls) -> Any:
        """BERT for token classification."""
        from transformers import BertForTokenClassification

        return BertForTokenClassification

    @property
    def tokenizer_hash(self) -> bytes:
        """The same for two models that read the same pieces."""
        return hashlib.sha256(self.tokenizer.backend_tokenizer.to_str().encode()).digest()

    def log_probabilities(
        self, texts: Sequence[Pieces], *, network: PreTrainedModel | None = None
    ) -> np.ndarray:
        """Of each tag for each word that is read, text after text.

        Args:
            texts: from `reader.read`.
            network: use this one instead of the model's own (one in training, say).

        Returns:
            Shape (words read, labels), float32.
        """
        runner = self.runner if network is None else self.runner.with_model(network)
        ranges = [cut(len(t.ids), window=self.window, overlap=self.overlap) for t in texts]
        windows = [
            self.reader.window(text.ids[start:end])
            for text, cuts in zip(texts, ranges, strict=True)
            for start, end in cuts
        ]
        rows = iter(runner.run(windows, read=_log_softmax))
        parts = [np.zeros((0, len(self.scheme.labels)), dtype=np.float32)]
        for text, cuts in zip(texts, ranges, strict=True):
            parts += _words_of(text.first[text.is_read], cuts, [next(rows) for _ in cuts])
        return np.concatenate(parts)

    def tags(
        self, sentences: Sequence[Sequence[str]], *, network: PreTrainedModel | None = None
    ) -> list[list[str]]:
        """The IOB2 tag of every word of every sentence, for words cut by someone else.

        A word that the tokenizer drops (a control character) is I where it stands within an
        entity, else O.

        Args:
            sentences: words; each sentence is read by itself.
            network: as in `log_probabilities`.
        """
        return self.decoded(
            sentences, lambda pieces: self.log_probabilities(pieces, network=network)
        )

    def decoded(
        self,
        sentences: Sequence[Sequence[str]],
        scores_of: Callable[[Sequence[Pieces]], np.ndarray],
    ) -> list[list[str]]:
        """The tags of sentences on the best path through scores of any origin.

        Args:
            sentences: as in `tags`.
            scores_of: pieces of several sentences -> as `log_probabilities`.

        Returns:
            One tag for each word of each sentence.
        """
        pieces = [self.reader.read(words) for words in sentences]
        result = []
        for chunk in _pools(pieces, limit=self.runner.buffer_tokens):
            scores = scores_of(chunk)
            counts = np.array([int(text.is_read.sum()) for text in chunk])
            starts = (np.cumsum(counts) - counts)[counts > 0]
            path = best_path(scores, scheme=self.scheme, starts=starts)
            ends = np.cumsum(counts)
            for text, end, count in zip(chunk, ends, counts, strict=True):
                result.append(self._named(path[end - count : end], text.is_read))
        return result

    def _named(self, path: np.ndarray, is_read: np.ndarray) -> list[str]:
        read = [self.scheme.labels[number] for number in path]
        tags, following = [], "O"
        for known in is_read[::-1]:
            if known:
                following = read.pop()
                tags.append(following)
            else:
                tags.append(following if following.startswith("I-") else "O")
        return tags[::-1]


def _log_softmax(output: Any, _: torch.Tensor | None) -> torch.Tensor:
    return output.logits.float().log_softmax(dim=-1)


def _words_of(
    first: np.ndarray, ranges: Sequence[tuple[int, int]], rows: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Each word's row from its best window, in the order of words."""
    choice = best_window(first, ranges)
    # Later windows hold later words, so the choices come in order.
    return [
        row[1 + first[choice == number] - start]
        for number, ((start, _), row) in enumerate(zip(ranges, rows, strict=True))
    ]


def _pools(texts: Sequence[Pieces], *, limit: int) -> Any:
    from domainbert.inference import chunked

    return chunked(texts, size=lambda text: 1 + len(text.ids), limit=limit)
