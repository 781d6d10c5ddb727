"""Characters and word shapes beside an encoder that ignores case.

The surface of a word piece is one integer: seven bits for the shape of its word, and seven bits
for each of its characters. It takes the place of BERT's token types, so that it goes wherever they
go, and a small convolution turns it into a part of the encoder's input (after Ma and Hovy 2016, who
read characters beside a recurrent encoder).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
GREEK = "αβγδεζηθικλμνξοπρςστυφχψωΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩ"
OTHER = 1  # a character outside the alphabet; 0 is no character
ALPHABET = {c: n for n, c in enumerate(f"{LETTERS}{GREEK}-/.,'+()%:;[]&_", start=OTHER + 1)}
BITS, LONGEST = 7, 8
CODES = 1 << BITS
SCALE = 0.02  # of the output: without it, the first steps drown the words


def surfaces(word: str, pieces: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """The surface of each piece of a word, given the pieces' first characters and ends.

    Of a piece with more than eight characters the first and the last four count. The shape says
    whether the word has small letters, a capital in front, later capitals, digits, Greek letters,
    and anything else, and whether the piece is its first.
    """
    flags = (
        any(map(str.islower, word)),
        word[:1].isupper(),
        any(map(str.isupper, word[1:])),
        any(map(str.isdigit, word)),
        any(c in GREEK for c in word),
        not word.isalnum(),
    )
    shape = 1 + sum(flag << place for place, flag in enumerate(flags))
    result = []
    for number, (start, end) in enumerate(pieces):
        text = word[start:end] if end - start <= LONGEST else word[start:][:4] + word[:end][-4:]
        codes = [shape + 63 * (number > 0), *(ALPHABET.get(c, OTHER) for c in text)]
        result.append(sum(code << BITS * place for place, code in enumerate(codes)))
    return tuple(result)


class Characters(torch.nn.Module):
    """A convolution over characters, and an embedding of shapes; at first its output is 0."""

    places: torch.Tensor

    def __init__(self, hidden: int, *, size: int = 16, filters: int = 96, shapes: int = 32) -> None:
        super().__init__()
        self.letters = torch.nn.Embedding(CODES, size, padding_idx=0)
        self.shapes = torch.nn.Embedding(CODES, shapes)
        self.convolution = torch.nn.Conv1d(size, filters, 3, padding=1)
        self.output = torch.nn.Linear(filters + shapes, hidden)
        torch.nn.init.zeros_(self.output.weight)
        torch.nn.init.zeros_(self.output.bias)
        self.register_buffer("places", BITS * torch.arange(1 + LONGEST), persistent=False)

    def forward(self, surface: torch.Tensor) -> torch.Tensor:
        """From surfaces, shape (rows, tokens), to vectors, shape (rows, tokens, hidden)."""
        codes = surface[..., None] >> self.places & CODES - 1
        letters = self.letters(codes[..., 1:]).flatten(0, 1).transpose(1, 2)
        found = self.convolution(letters).amax(-1).relu().unflatten(0, surface.shape)
        both = torch.cat((found, self.shapes(codes[..., 0])), dim=-1)
        result: torch.Tensor = SCALE * self.output(both)
        return result


class SurfaceEmbedding(torch.nn.Module):
    """Stands for BERT's embedding of token types, which it takes for type 0."""

    def __init__(self, types: torch.nn.Embedding) -> None:
        super().__init__()
        self.types, self.characters = types, Characters(types.embedding_dim)

    def forward(self, surface: torch.Tensor) -> torch.Tensor:
        """From surfaces, shape (rows, tokens), to vectors, shape (rows, tokens, hidden)."""
        result: torch.Tensor = self.types.weight[0] + self.characters(surface)
        return result


def add_characters(network: Any) -> Any:
    """The network with characters in its embeddings; a `UserError` if they have no token types."""
    embeddings = getattr(network.base_model, "embeddings", None)
    types = getattr(embeddings, "token_type_embeddings", None)
    if types is None:
        msg = f"characters: expected an encoder of the BERT family, got {network.config.model_type}"
        raise UserError(msg)
    embeddings.token_type_embeddings = SurfaceEmbedding(types)
    return network
