"""What tells two names apart, so that vectors link neither to the other: "influenza A" and "B"."""

import re
from functools import cache
from itertools import chain, pairwise, product, starmap

from biomed.terms.names import DATA, american, medical_terms
from domainbert.files import read_toml
from domainbert.tables import read_table

_DATA = read_toml(__file__, "differences.toml")
_WORD = re.compile(r"[^\W_]+")
_NEGATION = re.compile(r"\bnon(?=-| ?[a-z])|\b(?:without|no|not)\b")
_CODE = re.compile(r"(?:\d+|[ivx]{2,4})[a-z]?|[a-z]{1,4}\d+[a-z]?")
_ORDINAL = re.compile(r"(\d{1,2})(?:st|nd|rd|th)")
# The "s" of an owner and the initial of a species ("E. coli") are no types.
_NO_TYPE = re.compile(r"['\u2018\u2019]s\b|\b[A-Za-z]\.(?=\s?[a-z])")
_ENDINGS = "|".join(_DATA["endings"].split())
_ENDING = re.compile(rf"\b\w+(?:{_ENDINGS})(?=s?\b)")
_DRUG_ENDINGS = "|".join(_DATA["drug_endings"].split())
_DRUG_ENDING = re.compile(rf"\w{{3,}}(?:{_DRUG_ENDINGS})")
_NO_DRUGS = frozenset(_DATA["no_drugs"].split())
_BESIDE_DRUGS = frozenset(_DATA["beside_drugs"].split())
_NEGATIONS = frozenset(["", *_DATA["negations"]])
_STARTS = list(map(frozenset, _DATA["starts"]))
_LONGEST_START = 6
_SHORTEST_TAIL = 4  # letters of a word after its start
# Of each contrast: the words with the number of their side.
_CONTRASTS = [
    {
        word: number
        for number, side in enumerate(sides)
        for word in side.split()
    }
    for sides in _DATA["contrasts"]
]


def differ(name: str, other: str) -> bool:
    """Whether a difference between two names means that they are not of the same concept.

    Numbers, letters of types, and negation must be the same. The other name may lack a side, but
    not add one. Names with words of different sides of a contrast differ, and so do names with
    words in "-itis", "-oma" and so on of which none ends with another ("adenocarcinoma" ends with
    "carcinoma"). A name of a drug differs from every other name.
    """
    if name == other:
        return False
    if is_drug_name(name) or is_drug_name(other):
        return True
    if _types(name) != _types(other):
        return True
    name = american(name.casefold())
    other = american(other.casefold())
    if _is_negated(name) != _is_negated(other):
        return True
    words = _words(name)
    other_words = _words(other)
    if (other_words - words).intersection(_DATA["sides"]):
        return True
    for side_of in _CONTRASTS:
        sides = {side_of[word] for word in words & side_of.keys()}
        other_sides = {side_of[word] for word in other_words & side_of.keys()}
        if sides and other_sides and sides.isdisjoint(other_sides):
            return True
    if any(starmap(_contrast, product(words, other_words))):
        return True
    endings = list(product(_ENDING.findall(name), _ENDING.findall(other)))
    is_same = (a.endswith(b) or b.endswith(a) for a, b in endings)
    return bool(endings) and not any(is_same)


def _contrast(word: str, other: str) -> bool:
    """Whether two words differ in their starts only, and these are of one contrast."""
    starts = _starts_by_tail(word)
    other_starts = _starts_by_tail(other)
    for tail in starts.keys() & other_starts.keys():
        pair = {starts[tail], other_starts[tail]}
        is_contrast = any(map(pair.issubset, _STARTS))
        is_negation = "" in pair and pair.issubset(_NEGATIONS)
        if len(pair) == 2 and (is_contrast or is_negation):
            return True
    return False


def _starts_by_tail(word: str) -> dict[str, str]:
    longest = min(_LONGEST_START, len(word) - _SHORTEST_TAIL)
    return {word[length:]: word[:length] for length in range(longest + 1)}


def is_drug_name(name: str) -> bool:
    """Whether all words of a name are those of drugs, their salts, forms and amounts."""
    words = _WORD.findall(name.casefold())
    names = [
        word
        for word in words
        if word not in _BESIDE_DRUGS and not word.isdecimal()
    ]
    return bool(names) and all(map(_is_drug_word, names))


def _is_drug_word(word: str) -> bool:
    if word in _drug_words():
        return True
    return word not in _NO_DRUGS and _DRUG_ENDING.fullmatch(word) is not None


@cache
def _drug_words() -> frozenset[str]:
    """The drugs of the shipped vocabulary and brands that are one word."""
    terms = medical_terms()
    terms = terms[terms["category"] == "medication"]
    brands = read_table(DATA / "notes" / "brands.csv")
    names = chain(
        terms["term"], *terms["synonyms"], brands["brand"], brands["generic"]
    )
    return frozenset(
        name.casefold() for name in names if _WORD.fullmatch(name)
    )


def _is_negated(name: str) -> bool:
    return _NEGATION.search(name) is not None


def _words(name: str) -> set[str]:
    """The words, without a plural s too."""
    words = _WORD.findall(name)
    return {*words, *(word.removesuffix("s") for word in words)}


def _types(name: str) -> set[str]:
    """The numbers of a name and the letters of its type: "2" of "type II", "b" of "influenza B"."""
    types = set()
    written = _WORD.findall(_NO_TYPE.sub("", name))
    words = [word.casefold() for word in written]
    for number, (before, word) in enumerate(pairwise(["", *words])):
        is_letter = len(word) == 1 and word.isalpha()
        if ordinal := _ORDINAL.fullmatch(word):
            types.add(ordinal[1])
        elif word in _DATA["ordinals"]:
            types.add(_DATA["ordinals"][word])
        elif _CODE.fullmatch(word):
            types.add(word)
        elif before in _DATA["typed"] and is_letter:
            types.add(_DATA["letters"].get(word, word))
        elif is_letter and (
            written[number].isupper() or number == len(words) - 1
        ):
            types.add(word)
    return types
