"""What tells two names apart though their vectors are near: number, type, side and others."""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_]+")
_NOT = re.compile(r"\bnon(?=-| ?[a-z])|\b(?:without|no|not)\b", re.I)
_ROMAN = {"ii": "2", "iii": "3", "iv": "4", "vi": "6", "vii": "7", "viii": "8", "ix": "9"}
# After these words a letter is a type, or a number.
_TYPED = frozenset(["type", "grade", "stage", "class", "factor", "group", "hepatitis", "vitamin"])
_LETTERS = {"i": "1", "v": "5", "x": "10"}
_CODE = re.compile(r"\d+[a-z]?|[a-z]{1,4}\d+[a-z]?")
_SIDES = frozenset(["left", "right", "bilateral", "unilateral"])
# Of each pair, two names may not have one each; "hyper-" is the start of a word.
_OPPOSITES = [
    pair.split()
    for pair in (
        *("left right", "unilateral bilateral", "upper lower", "anterior posterior"),
        *("central peripheral", "proximal distal", "superior inferior", "internal external"),
        *("arterial venous", "atrial ventricular", "systolic diastolic", "maternal fetal"),
        *("acute chronic", "benign malignant", "primary secondary", "congenital acquired"),
        *("male female", "juvenile adult", "large small", "dominant recessive", "high low"),
        *("tachycardia bradycardia", "hyper- hypo-"),
    )
]
_ENDING = re.compile(r"\b\w+(?:itis|oma)(?=s?\b)", re.I)


def differ(name: str, other: str) -> bool:
    """Whether two names differ in number, type, side, negation, inflammation or kind of tumour.

    Numbers, types and "non-" must be the same. The other name may lack a side, but not add one.
    Opposites are apart, and so are words in "-itis" or "-oma" of which none ends with another
    ("adenocarcinoma" ends with "carcinoma").
    """
    ours, theirs = (_WORD.findall(each.casefold()) for each in (name, other))
    if _types(ours) != _types(theirs) or bool(_NOT.search(name)) != bool(_NOT.search(other)):
        return True
    if _SIDES & set(theirs) - set(ours) or any(_apart(ours, theirs, p) for p in _OPPOSITES):
        return True
    one, two = (_ENDING.findall(each.casefold()) for each in (name, other))
    return bool(one and two) and not any(a.endswith(b) or b.endswith(a) for a in one for b in two)


def _types(words: list[str]) -> set[str]:
    """Numbers and the letters of types."""
    found = set()
    for before, word in zip(["", *words], words, strict=False):
        if _CODE.fullmatch(word):
            found.add(word)
        elif word in _ROMAN:
            found.add(_ROMAN[word])
        elif len(word) == 1 and before in _TYPED:
            found.add(_LETTERS.get(word, word))
    return found


def _apart(ours: list[str], theirs: list[str], pair: list[str]) -> bool:
    """Whether one name has only the first of a pair, and the other only the second."""
    one, two = (
        tuple(any(_has(word, mark) for word in words) for mark in pair) for words in (ours, theirs)
    )
    return {one, two} == {(True, False), (False, True)}


def _has(word: str, mark: str) -> bool:
    return word.startswith(mark[:-1]) if mark.endswith("-") else word == mark
