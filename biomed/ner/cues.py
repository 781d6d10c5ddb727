"""The cues of `biomed.ner.assertion`: words that make an entity negated, possible, and so on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["any", "disease", "drug"]


@dataclass(frozen=True, eq=False)
class Cue:
    """Words that decide the assertion of entities near them.

    Attributes:
        assertion: of the entities that the cue reaches.
        pattern: the words, in small letters.
        after: whether the cue stands after the entity.
        words: at most so many words between cue and entity.
        items: of a list separated by commas: "one" reaches the first item, "list" also the items
            that are bare names, "all" every item.
        kind: of the entities that it reaches.
    """

    assertion: str
    pattern: re.Pattern[str]
    after: bool = False
    words: int = 5
    items: Literal["one", "list", "all"] = "one"
    kind: Kind = "any"

    def fits(self, *, is_drug: bool) -> bool:
        """Whether the cue is for this kind of entity."""
        return self.kind == "any" or (self.kind == "drug") == is_drug


def _of(names: str) -> re.Pattern[str]:
    """One pattern of alternatives that are written one a line; a space may be any white space."""
    lines = [line.strip().replace(" ", r"\s+") for line in names.strip().splitlines()]
    return re.compile(rf"(?<![\w/-])(?:{'|'.join(lines)})(?![\w])")


_RELATIVE = (
    "(?:grand)?(?:mother|father|parent|son|daughter)s?|mom|dad|brothers?|sisters?|siblings?|"
    "aunts?|uncles?|cousins?|nieces?|nephews?|wife|husband|spouse|twin|relatives?"
)
_INFORMANT = (
    "reports?|states?|says|notes?|denies|brings|brought|concerned|gives|called|thinks|worried|"
    "at bedside|present|informed"
)

NEGATED = """no
(?:not|never) (?:have|had|having)
not
never
without
w/o
denie[sd]
denying
neg(?:ative)? for
no (?:evidence|signs?|symptoms?|history|hx|h/o|e/o) (?:of|for)?
absence of
free of
ruled out for
r/o'd for
fails to show"""
POSSIBLE = """possibl[ey]
probabl[ey]
presumed
likely
suspect(?:s|ed)?
suspicious for
suspicion (?:for|of)
concern(?:s|ed|ing)? (?:for|of|about)
c/f
worrisome for
question(?:able)?(?: of)?
cannot (?:exclude|rule out)
r/o
rule out
to exclude
may have
might have
could be
may be
might be
doubt
unlikely
vs\\.?
versus
differential(?: diagnosis)?(?: includes?)?
ddx
eval(?:uate|uation)? for
assess(?:ed|ment)? for
workup for
work up for
monitor(?:ed|ing)? for
watch(?:ing)? for
test(?:ed|ing)? for
screen(?:ed|ing)? for
return (?:if|for)
if
risk (?:of|for)
prevent(?:ion of)?
in case of
prn(?: for)?
as needed for"""
HISTORICAL = """h/o
hx(?: of)?
history of
s/p
status post
prior
previous(?:ly)?
past
remote
childhood
no longer has
last
old
recovered from"""
PAST_HISTORY = """pmhx?(?: of| sig(?:nificant)? for| notable for| includes?)?
past (?:medical )?history (?:of|significant for|notable for)"""
STOPPED = """stop(?:ped)?
d/c
dc
dc'd
d/c'd
discontinued?
off
finished
completed
tried
failed
previously (?:on|took|taking|received|treated (?:with|w/))
was on
switch(?:ed)?(?: from)?
changed from
last"""
NOT_TAKEN = """hold(?:ing)?
held
avoid(?:ing)?
no
not (?:on|taking)
non-?compliant (?:w/|with)
non compliant (?:w/|with)
refuse[sd]
declined?
allergi(?:c|es) to
allergy to
intoleran(?:t|ce) (?:of|to)
not a candidate for
without
denies
never (?:on|took)"""
CONSIDERED = """consider(?:ing)?
(?:may|might|could) (?:add|start|need|try|use|switch to)
discuss(?:ed)?(?: starting)?"""

# Words that are no cue for a negated or historical entity.
NOT_A_CUE = _of(
    r"""no (?:significant |further |acute |real )?(?:change|increase|decrease|improvement|relief)
no (?:significant |further )?(?:response|difficulty|problems?|issues?)(?: with| from| to| in)?
not (?:only|certain|sure|necessarily)
(?:gram|rh|hiv)[\s-]negative
(?:not|cannot|can't|could not) (?:be )?(?:entirely )?(?:excluded|ruled out)
history (?:per|from|obtained)"""
)
# Nothing reaches beyond these words.
TERMINATORS = _of(
    """but
however
although
though
yet
except(?: for)?
aside from
apart from
now
currently
today
presents?
presenting
p/w
c/o
complain(?:s|ing)(?: of)?
who
which
reports?
admitted
here (?:for|with)
found to
started?
continues?
cont
has
have
had
to
\\[x\\]
\\(\\+\\)"""
)
DRUG_BARRIERS = _of("on\nwith\nw/\nfor\nafter\nfrom\nto\ndespite\ngiven\ntaking\nby")

CUES = (
    Cue(
        "other",
        re.compile(
            rf"(?<![\w/-])(?<!per )(?<!in her )(?<!in his )(?<!in the )(?:{_RELATIVE})"
            rf"(?!\w|\s+(?:{_INFORMANT}))(?:['’]s)?(?:\s+(?:also|both))?(?:\s+(?:has|have|had))?"
        ),
        words=6,
        items="list",
    ),
    Cue("other", _of("family (?:history|hx|h/o)(?: of| for)?\nfhx?(?: of)?"), items="all"),
    Cue(
        "other",
        re.compile(
            rf"\(\s*(?:in\s+)?(?:her\s+|his\s+)?(?:{_RELATIVE})(?!\w)"
            rf"|(?<!\w)in\s+(?:(?:her|his|the|their|a|pt's|patient's)\s+)?(?:{_RELATIVE})(?!\w)"
        ),
        after=True,
        words=2,
    ),
    Cue("negated", _of(NEGATED), items="list", kind="disease"),
    Cue("negated", re.compile(r"\[ ?\]|\(-\)"), words=2),
    Cue("negated", _of(NOT_TAKEN), words=3, items="list", kind="drug"),
    Cue(
        "negated",
        _of(
            """(?:was |were |is |been )?(?:ruled out|excluded|negative|neg|absent|denied)(?! for)
r/o'd
not (?:seen|present|found|identified|detected)
(?::\\s*)?(?:none|no|denie[sd])(?=\\s*(?:$|[.,;]))"""
        ),
        after=True,
        words=1,
    ),
    Cue(
        "negated",
        _of("allerg(?:y|ies)\nintolerance\nheld\non hold\nrefused\ncontraindicated\nwindow"),
        after=True,
        words=2,
        kind="drug",
    ),
    Cue("possible", _of(POSSIBLE), kind="disease"),
    Cue("possible", re.compile(r"\?"), words=0, kind="disease"),
    Cue("possible", _of(CONSIDERED), words=3, items="list", kind="drug"),
    Cue(
        "possible",
        _of(
            """(?:is |was |are )?(?:suspected|considered|questioned|possible|unlikely|less likely)
likely(?=\\s*(?:$|[.,;)]))
(?:not|cannot|can't|could not) (?:be )?(?:entirely )?(?:excluded|ruled out)
vs\\.?
versus
ppx
prophylaxis
precautions
screen(?:ing)?(?! neg)"""
        ),
        after=True,
        words=1,
        kind="disease",
    ),
    Cue("possible", re.compile(r"\?"), after=True, words=0),
    Cue("possible", _of("if"), after=True, words=3, kind="drug"),
    Cue("historical", _of(HISTORICAL), items="list", kind="disease"),
    Cue("historical", _of("s/p\nstatus post\nprior"), words=8, kind="disease"),
    Cue("historical", _of(PAST_HISTORY), words=60, items="all", kind="disease"),
    Cue("historical", _of("h/o\nhx(?: of)?\nhistory of\nlast"), words=1, kind="drug"),
    Cue("historical", _of(STOPPED), words=2, items="list", kind="drug"),
    Cue(
        "historical",
        _of(
            """(?:was |were |been )?(?:stopped|d/c'd|dc'd|discontinued|finished|completed)
(?:in |x )?(?:19|20)\\d\\d(?!\\s*(?:iu|units?|u|mg|mcg|ml|k)\\b)
last (?:week|month|year|wk|mo)"""
        ),
        after=True,
        words=1,
        kind="drug",
    ),
    Cue(
        "historical",
        _of(
            """(?:in )?(?:19|20)\\d\\d
in (?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]*
(?:\\d+|several|many|years|yrs) (?:years |yrs |months |mo |weeks |wks )?ago
as a child
in childhood
at (?:age )?\\d+(?:\\s?(?:mo|months|yrs?|years|y/?o))?
resolved
cured
s/p (?:\\w+ )?(?:\\w+ectomy|resection|excision|ablation|repair|mohs|hartmann's?|laser)"""
        ),
        after=True,
        words=1,
        kind="disease",
    ),
)

# Section headings in small letters, and what they make of a disease and of a drug.
SECTIONS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        (
            *(
                "pmh",
                "pmhx",
                "psh",
                "past medical history",
                "past history",
                "past surgical history",
            ),
            *("medical history", "past psychiatric history", "past ob history", "ob history"),
            *("past oncologic history", "past medical hx", "past medical and surgical history"),
        ),
        ("historical", ""),
    ),
    **dict.fromkeys(
        ("fh", "fhx", "famhx", "fam hx", "family history", "family hx"), ("other", "other")
    ),
    **dict.fromkeys(
        ("allergies", "allergy", "all", "drug allergies", "adverse reactions", "intolerances"),
        ("historical", "negated"),
    ),
    **dict.fromkeys(
        ("ppx", "prophylaxis", "return precautions", "r/o", "rule out", "ddx", "differential"),
        ("possible", ""),
    ),
}
