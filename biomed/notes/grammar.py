"""The grammar of medications: the words of `medications.toml` as one set of patterns."""

import re

from biomed.notes.patterns import Patterns
from biomed.notes.statuses import status_cues
from domainbert.files import read_toml

DATA = read_toml(__file__, "medications.toml")


def _macros() -> dict[str, str]:
    """The macros of the grammar."""
    macros = {**DATA["macros"], **DATA["words"]}
    for table in ("form", "route", "frequency"):
        words = "\n".join(row["words"].strip() for row in DATA[table])
        # The longer ones first.
        macros[table] = "\n".join(
            sorted(words.splitlines(), key=len, reverse=True)
        )
    for table in ("units", "per"):
        macros[table] = "|".join(DATA[table].values())
    macros["counted"] = DATA["units"][""]
    macros["cues"] = status_cues()
    return macros


PATTERNS = Patterns(_macros())

_FORM_WORDS = re.compile(
    rf"(?!insulin)(?:(?:{PATTERNS.source('{form_words}')})(?!\w)[\s/.,-]{{0,3}}){{1,6}}"
)


def is_unit_or_form(text: str) -> bool:
    """Whether words are those of units, dose forms and routes only: "mcg/actuation"."""
    return _FORM_WORDS.fullmatch(text.lower().strip()) is not None
