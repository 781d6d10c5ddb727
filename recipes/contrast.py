"""Made-up studies of two or three groups, with questions that name one of the groups.

    python -m recipes.contrast runs/contrast --data ../shared/data

Writes train.json, devel.json and test.json in the form of SQuAD 2.0. A question is asked of every
group in the same words, so only the group decides which number is right. Other questions name the
group by what it did not get, a group that is not in the text, or a number that is not reported.
The wording (questions/contrast.toml) and the names of drugs and diseases are on one side each.
"""

from __future__ import annotations

import json
import random
import re
import tomllib
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from domainbert.cli.console import one_line_errors, say
from domainbert.files import write_json
from domainbert.text.sentences import sentence_spans
from recipes.notes.sections import read_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Span = tuple[int, int]
Asked = tuple[str, Span | None]  # a question, and the characters of its answer

WORDING = Path(__file__).parent / "questions" / "contrast.toml"
# Of so many lines of each list, or names, the fifth is for devel and the sixth for test.
LINES = 6
SIDES = {"train": (0, 1, 2, 3), "devel": (4,), "test": (5,)}
COUNTS = {"train": 6000, "devel": 300, "test": 300}
ALONE = ("study", "course")  # families of facts that are on no group
TRIES = 20  # to draw different numbers for the groups
_FROM_TWO = "two three four five six seven eight nine ten eleven twelve"
IN_WORDS = _FROM_TWO.split()
DOSES = (0.5, 1, 2, 2.5, 4, 5, 7.5, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 75)
DOSES += (80, 100, 120, 150, 200, 250, 300, 400, 500, 600, 750, 800, 1000)
SPANS = ("days", "days", "weeks", "weeks", "months", "hours")
PERCENT = (*["{}%"] * 8, "{} %", "{} percent")
MEASURE = ("measure", "unit", "low", "high", "decimals", "other measure")
# The list in contrast.toml with a family's topics, and what the parts of a line are.
TOPICS = {
    "event": ("events", ("past", "noun", "other past", "other noun")),
    "change": ("measures", MEASURE),
    "course": ("measures", MEASURE),
    "level": ("measures", MEASURE),
    "time": ("times", ("time", "unit", "low", "high", "other time")),
}
RESULTS = ("event", "change", "level", "time")
_SLOT = re.compile(r"\{([A-Za-z]+)(\d?)\}")
_NAME = re.compile(r"[A-Z][a-z]{4,15}")
_TWO_ARTICLES = re.compile(r"\bthe an? ")
_GROUP = re.compile(r"\b(group|arm)\b")


def side_number(name: str) -> int:
    """A number below `LINES`; a name is on the side of the lines with its number."""
    return int(sha256(name.encode()).hexdigest(), 16) % LINES


class Wording:
    """The lines of one side of contrast.toml, names of the same side, and real abstracts."""

    def __init__(self, side: str, data: Path) -> None:
        self._numbers = SIDES[side]
        self._table = tomllib.loads(WORDING.read_text(encoding="utf-8"))
        drugs = read_rows(data / "names" / "drugbank.csv.gz")
        self.drugs = self._names(row["name"] for row in drugs)
        diseases = read_rows(data / "names" / "mesh_diseases.csv.gz")
        self.diseases = self._names(row["name"] for row in diseases)
        pubmedqa = data / "qa" / "pubmedqa_labeled.json"
        rows = json.loads(pubmedqa.read_text(encoding="utf-8"))
        self.abstracts = [
            " ".join(row["CONTEXTS"])
            for name, row in rows.items()
            if side_number(name) in self._numbers
        ]

    def _names(self, names: Iterable[str]) -> list[str]:
        """The names of one plain word that are on this side."""
        return [
            name.lower()
            for name in names
            if _NAME.fullmatch(name) and side_number(name) in self._numbers
        ]

    def lines(self, *path: str) -> list[str]:
        """The lines of this side in a list of contrast.toml."""
        table: Any = self._table
        for key in path:
            table = table[key]
        return [
            line
            for number, line in enumerate(table)
            if number % LINES in self._numbers
        ]

    def slots(self, family: str) -> list[str]:
        """Names of the numbers of a family."""
        return [*self._table["families"][family]["slots"]]

    def families(self, kinds: set[str]) -> list[str]:
        """The families of facts on groups of these kinds."""
        families = self._table["families"].items()
        return [
            name
            for name, family in families
            if name not in ALONE and kinds <= {*family.get("kinds", kinds)}
        ]


@dataclass
class Arm:
    """A group of a study.

    Attributes:
        name: what the text calls it: its treatment, or "group A".
        kind: the list of `[mentions]` that has its wording.
        short: an abbreviation of the name; empty without one.
        treatment, treatment_kind: of a group with a label.
        size: how many are in it.
        unit: of doses.
        values: the numbers of the latest fact, by slot.
    """

    name: str
    kind: str
    short: str = ""
    treatment: str = ""
    treatment_kind: str = ""
    size: str = ""
    unit: str = "mg"
    values: dict[str, str] = field(default_factory=dict)


@dataclass
class Fact:
    """A sentence with one number, or several, of each group.

    Attributes:
        family: what kind of fact it is.
        words: what it is about.
        spans: the characters of its numbers, by slot and number of the group; first of the
            sentence, then of the text.
    """

    family: str
    words: dict[str, str]
    spans: dict[tuple[str, int], Span]


Sentence = tuple[str, list[Fact]]


class Numbers:
    """Draws numbers, with their units, for the slots of a family."""

    def __init__(self, wording: Wording, chooser: random.Random) -> None:
        self._wording = wording
        self._chooser = chooser
        self._percent = chooser.choice(PERCENT)

    def fill(
        self, family: str, arms: Sequence[Arm], words: dict[str, str]
    ) -> None:
        """Give each group numbers of its own, different ones where that is possible."""
        draw = getattr(self, f"_{family}")
        for _ in range(TRIES):
            for arm in arms:
                arm.values = draw(arm, words)
            columns = zip(*(arm.values.values() for arm in arms), strict=True)
            if all(len({*column}) == len(column) for column in columns):
                return

    def count(self, low: int, high: int) -> str:
        """A whole number, a small one often in words."""
        number = self._chooser.randint(low, high)
        if 2 <= number <= 12 and self._chooser.random() < 0.4:
            return IN_WORDS[number - 2]
        return str(number)

    def other(self, slot: str) -> str:
        """A number that is none of a group's."""
        chooser = self._chooser
        return {
            "small": f"{chooser.uniform(0.001, 0.9):.2g}",
            "ratio": f"{chooser.uniform(0.2, 4):.2f}",
            "weeks": str(chooser.randint(2, 60)),
            "age": str(chooser.randint(18, 90)),
            "percent": f"{chooser.randint(2, 98)}%",
            "sd": f"{chooser.uniform(0.5, 20):.1f}",
        }[slot]

    def _size(self, arm: Arm, _: dict[str, str]) -> dict[str, str]:
        return {"n": arm.size}

    def _dose_of(self, arm: Arm) -> str:
        return f"{self._chooser.choice(DOSES):g} {arm.unit}"

    def _dose(self, arm: Arm, _: dict[str, str]) -> dict[str, str]:
        frequencies = self._wording.lines("words", "frequencies")
        return {
            "d": self._dose_of(arm),
            "f": self._chooser.choice(frequencies),
            "k": self.count(2, 9),
            "l": f"{self.count(2, 14)} {self._chooser.choice(SPANS)}",
        }

    def _schedule(self, arm: Arm, words: dict[str, str]) -> dict[str, str]:
        dose = self._dose(arm, words)
        return {slot: dose[slot] for slot in "dfk"}

    def _course(self, arm: Arm, words: dict[str, str]) -> dict[str, str]:
        levels = self._change(arm, words)
        return {slot: levels[slot] for slot in "be"}

    def _adjustment(self, arm: Arm, _: dict[str, str]) -> dict[str, str]:
        return {"b": self._dose_of(arm), "e": self._dose_of(arm)}

    def _event(self, arm: Arm, _: dict[str, str]) -> dict[str, str]:
        decimals = self._chooser.choice((0, 0, 1))
        share = self._chooser.uniform(1, 97)
        percent = self._percent.format(f"{share:.{decimals}f}")
        return {"p": percent, "c": self.count(1, int(arm.size))}

    def _time(self, _: Arm, words: dict[str, str]) -> dict[str, str]:
        duration = self._chooser.uniform(int(words["low"]), int(words["high"]))
        decimals = self._chooser.choice((0, 0, 1))
        return {"t": f"{duration:.{decimals}f} {words['unit']}"}

    def _level(self, arm: Arm, words: dict[str, str]) -> dict[str, str]:
        return {"m": self._change(arm, words)["b"]}

    def _change(self, _: Arm, words: dict[str, str]) -> dict[str, str]:
        """A level before and one after a fall, and the fall."""
        low = float(words["low"])
        width = float(words["high"]) - low
        decimals = int(words["decimals"])
        unit = words["unit"]
        if unit != "%":
            unit = f" {unit}"
        before = low + width * self._chooser.uniform(0.4, 1)
        before = round(before, decimals)
        fall = round(width * self._chooser.uniform(0.03, 0.35), decimals)
        levels = {"b": before, "d": fall, "e": before - fall}
        return {
            slot: f"{level:.{decimals}f}{unit}"
            for slot, level in levels.items()
        }


class Study:
    """One made-up text and its questions.

    Attributes:
        text: the text.
        questions: each with the characters of its answer, None where the text has none.
    """

    def __init__(self, wording: Wording, chooser: random.Random) -> None:
        self._wording = wording
        self._chooser = chooser
        self._numbers = Numbers(wording, chooser)
        self._words = self._about_study()
        self._arms = self._drawn_arms()
        self._topics: set[str] = set()
        self._facts: list[Fact] = []
        self.text = self._written()
        self.questions = self._asked()

    def _line(self, *path: str) -> str:
        return self._chooser.choice(self._wording.lines(*path))

    def _about_study(self) -> dict[str, str]:
        year = self._chooser.randint(1985, 2019)
        return {
            "patients": self._line("words", "patients"),
            "disease": self._chooser.choice(self._wording.diseases),
            "place": self._line("words", "places"),
            "route": self._line("words", "routes"),
            "total": str(self._chooser.randint(20, 2500)),
            "year": str(year),
            "year2": str(year + self._chooser.randint(1, 6)),
        }

    # Groups.

    def _drawn_arms(self) -> list[Arm]:
        """Two or three groups that are told apart in one way."""
        chooser = self._chooser
        count = chooser.choice((2, 2, 2, 3))
        kinds = ("drug", "procedure", "group", "people")
        (kind,) = chooser.choices(kinds, weights=(10, 4, 6, 2))
        if kind == "people":
            names = self._line("words", "people").split("|")
            chooser.shuffle(names)
            arms = [Arm(name, kind) for name in names]
        elif kind == "group":
            arms = self._labelled_arms(count)
        else:
            arms = self._treated_arms(kind, count)
        sizes = chooser.sample(range(12, 400), len(arms))
        for arm, size in zip(arms, sizes, strict=True):
            arm.size = str(size)
            arm.unit = self._line("words", "units")
        return arms

    def _treated_arms(self, kind: str, count: int) -> list[Arm]:
        names = self._wording.drugs
        if kind == "procedure":
            names = self._wording.lines("words", "procedures")
        arms = [Arm(name, kind) for name in self._chooser.sample(names, count)]
        if self._chooser.random() < 0.3:
            arms[-1] = Arm(self._line("words", "controls"), "control")
        if self._chooser.random() < 0.2:
            for arm in arms:
                arm.short = abbreviation(arm.name)
        if len({arm.short for arm in arms}) < count:
            for arm in arms:
                arm.short = ""
        return arms

    def _labelled_arms(self, count: int) -> list[Arm]:
        kind = self._chooser.choice(("drug", "drug", "procedure"))
        labels = self._line("words", "labels").split("|")
        return [
            Arm(
                label,
                "group",
                treatment=arm.name,
                treatment_kind=arm.kind,
            )
            for label, arm in zip(
                labels, self._treated_arms(kind, count), strict=False
            )
        ]

    def _mention(self, arm: Arm, *, by_treatment: bool = False) -> str:
        """A group in words, such as "in the aspirin group"."""
        name = arm.name
        kind = arm.kind
        if by_treatment:
            name = arm.treatment
            kind = arm.treatment_kind
        elif arm.short and "study" in self._topics:
            name = self._chooser.choice((arm.short, arm.short, name))
        return in_words(self._line("mentions", kind), name)

    # Sentences.

    def _written(self) -> str:
        """The text: the design, then facts and other sentences in random order."""
        chooser = self._chooser
        kinds = {arm.kind for arm in self._arms}
        is_note = kinds == {"drug"} and chooser.random() < 0.15
        sentences = [] if is_note else self._introduction()
        families = self._wording.families(kinds) + ["event"] * 3
        count = chooser.randint(2, 5)
        if is_note:
            families = ["dose", "adjustment", "course"]
            count = 2
        elif kinds == {"drug"}:
            families += ["dose"] * 2
        results = [
            self._stated(family)
            for family in chooser.choices(families, k=count)
        ]
        for _ in range(chooser.choice((0, 1, 1, 2, 3))):
            filler = self._line("design", "fillers")
            results.append((self._filled(filler, self._arms, {})[0], []))
        chooser.shuffle(results)
        sentences += results
        background = [(text, []) for text in self._background()]
        cut = chooser.randint(0, len(background))
        return self._joined([*background[:cut], *sentences, *background[cut:]])

    def _joined(self, sentences: Sequence[Sentence]) -> str:
        text = ""
        for sentence, facts in sentences:
            if not sentence:
                continue
            if text:
                text += self._chooser.choice((" ", " ", " ", " ", "\n"))
            shift = len(text)
            for fact in facts:
                fact.spans = {
                    key: (start + shift, end + shift)
                    for key, (start, end) in fact.spans.items()
                }
            self._facts += facts
            text += sentence
        return text

    def _background(self) -> list[str]:
        """A few sentences of a real abstract, for a third of the texts."""
        if self._chooser.random() > 0.35:
            return []
        abstract = self._chooser.choice(self._wording.abstracts)
        spans = sentence_spans(abstract)
        first = self._chooser.randrange(len(spans))
        last = first + self._chooser.randint(1, 4)
        return [abstract[start:end] for start, end in spans[first:last]]

    def _introduction(self) -> list[Sentence]:
        """Sentences on the design of the study and on what its groups get."""
        sentences: list[Sentence] = []
        size = "two" if len(self._arms) == 2 else "three"
        if self._chooser.random() < 0.75:
            words = {
                f"x{number}": f"{arm.name} ({arm.short})"
                for number, arm in enumerate(self._arms, start=1)
                if arm.short
            }
            line = self._line("design", size)
            text, spans = self._filled(line, self._arms, words)
            self._topics.add("study")
            sentences.append((text, [Fact("study", {}, spans)]))
        if self._arms[0].treatment:
            line = self._line("design", f"labelled_{size}")
            text, _ = self._filled(line, self._arms, {})
            sentences.append((text, []))
        return sentences

    def _topic(self, family: str) -> dict[str, str] | None:
        """What a fact is about; None if the text already has it."""
        words: dict[str, str] = {}
        name = "dose" if family == "adjustment" else family
        if family in TOPICS:
            kind, keys = TOPICS[family]
            parts = self._line("words", kind).split("|")
            words = dict(zip(keys, parts, strict=False))
            name = parts[0]
        if name in self._topics:
            return None
        self._topics.add(name)
        return words

    def _stated(self, family: str) -> Sentence:
        """A sentence and its facts; an empty one if the text already has its topic."""
        words = self._topic(family)
        if words is None:
            return "", []
        arms = [*self._arms]
        if family == "adjustment":
            arms = arms[:2]
        self._numbers.fill(family, arms, words)
        size = "two" if len(arms) == 2 else "three"
        in_order = "study" in self._topics and family in RESULTS
        if in_order and self._chooser.random() < 0.2:
            # The groups are in the order of the study's design, and not named again.
            size = f"ordered_{size}"
        else:
            self._chooser.shuffle(arms)
        line = self._line("families", family, size)
        text, spans = self._filled(line, arms, words)
        numbers = [self._arms.index(arm) for arm in arms]
        by_arm = {
            (slot, numbers[number]): span
            for (slot, number), span in spans.items()
            if slot in arms[0].values
        }
        facts = [Fact(family, words, by_arm)]
        sizes = {
            ("n", numbers[number]): span
            for (slot, number), span in spans.items()
            if slot == "t" and family != "time"
        }
        if sizes and "size" not in self._topics:
            self._topics.add("size")
            facts.append(Fact("size", {}, sizes))
        return text, facts

    def _filled(
        self, line: str, arms: Sequence[Arm], words: dict[str, str]
    ) -> tuple[str, dict[tuple[str, int], Span]]:
        """A sentence, and the characters of the numbers of its groups."""
        form = ""
        if self._chooser.random() < 0.5:
            form = self._line("mentions", arms[0].kind)
        text = ""
        spans: dict[tuple[str, int], Span] = {}
        end = 0
        for match in _SLOT.finditer(line):
            slot = match[1].lower()
            filler = self._filler(slot, match[2], arms, words, form)
            text += line[end : match.start()]
            if match[1][0].isupper() or not text:
                filler = filler[:1].upper() + filler[1:]
            span = (len(text), len(text) + len(filler))
            if match[2] and slot in ("t", *arms[int(match[2]) - 1].values):
                spans[slot, int(match[2]) - 1] = span
            elif slot == "total":
                spans[slot, 0] = span
            text += filler
            end = match.end()
        return text + line[end:], spans

    def _filler(
        self,
        slot: str,
        number: str,
        arms: Sequence[Arm],
        words: dict[str, str],
        form: str,
    ) -> str:
        """What a slot is filled with; `form` is how all groups of the sentence are named."""
        for texts in (words, self._words):
            if slot + number in texts:
                return texts[slot + number]
        if slot == "both":
            return self._all_mentioned(arms)
        if not number:
            return self._numbers.other(slot)
        arm = arms[int(number) - 1]
        if slot in arm.values:
            return arm.values[slot]
        if slot == "in" and form and arm.kind == arms[0].kind:
            return in_words(form, arm.name)
        if slot == "in":
            return self._mention(arm)
        return {"y": arm.treatment, "t": arm.size}.get(slot, arm.name)

    def _all_mentioned(self, arms: Sequence[Arm]) -> str:
        """All groups in words, such as "in the aspirin and placebo groups"."""
        *names, last = (arm.name for arm in arms)
        form = self._line("mentions", arms[0].kind)
        form = _GROUP.sub(r"\1s", form)
        return in_words(form, f"{', '.join(names)} and {last}")

    # Questions.

    def _asked(self) -> list[Asked]:
        """Two questions asked of each group, and some that are harder or have no answer."""
        topics = [
            (fact, slot)
            for fact in self._facts
            for slot in sorted({slot for slot, _ in fact.spans})
        ]
        chosen = self._chooser.sample(topics, min(len(topics), 2))
        pairs: dict[str, Span | None] = {}
        for fact, slot in chosen:
            line = self._line("families", fact.family, "questions", slot)
            for name, number in sorted(fact.spans):
                if name == slot:
                    question = self._question(line, fact, self._arms[number])
                    pairs[question] = fact.spans[slot, number]
        for question, span in (*self._negated(), *self._unanswerable()):
            pairs.setdefault(question, span)
        return [*pairs.items()]

    def _question(
        self, line: str, fact: Fact, arm: Arm, *, mention: str = ""
    ) -> str:
        """A question on a group, which may be named by its treatment or in other words."""
        topic = {**fact.words}
        if self._chooser.random() < 0.35:
            topic |= {
                key.removeprefix("other "): text
                for key, text in topic.items()
                if key.startswith("other ")
            }
        by_treatment = bool(arm.treatment) and self._chooser.random() < 0.35
        name = arm.treatment if by_treatment else arm.name
        mention = mention or self._mention(arm, by_treatment=by_treatment)
        words = {"unit": arm.unit} | self._words | topic
        words |= {"in": mention, "x": name}
        question = ""
        end = 0
        for match in _SLOT.finditer(line):
            text = words[match[1].lower()]
            if match[1][0].isupper():
                text = text[:1].upper() + text[1:]
            question += line[end : match.start()] + text
            end = match.end()
        return question + line[end:]

    def _negated(self) -> Iterator[Asked]:
        """A question that names one of two groups by what it did not get."""
        facts = [fact for fact in self._facts if fact.family in RESULTS]
        is_people = self._arms[0].kind == "people"
        if len(self._arms) > 2 or not facts or is_people:
            return
        if self._chooser.random() < 0.5:
            return
        fact = self._chooser.choice(facts)
        slot, number = self._chooser.choice(sorted(fact.spans))
        other = self._arms[1 - number]
        line = self._line("families", fact.family, "questions", slot)
        if "control" in (other.kind, other.treatment_kind):
            return
        if "{in}" in line.lower():
            absent = self._line("mentions", "absent")
            mention = absent.format(x=other.treatment or other.name)
            arm = self._arms[number]
            question = self._question(line, fact, arm, mention=mention)
            yield question, fact.spans[slot, number]

    def _unanswerable(self) -> Iterator[Asked]:
        """Questions on a group, a number or a topic that the text does not have."""
        chooser = self._chooser
        facts = [fact for fact in self._facts if fact.family not in ALONE]
        if not facts:
            return
        fact = chooser.choice(facts)
        stranger = self._stranger()
        if stranger and chooser.random() < 0.5:
            slot, _ = chooser.choice(sorted(fact.spans))
            line = self._line("families", fact.family, "questions", slot)
            yield self._question(line, fact, stranger), None
        fact = chooser.choice(facts)
        shown = {slot for slot, _ in fact.spans}
        slots = {*self._wording.slots(fact.family)} - shown
        if slots and chooser.random() < 0.6:
            slot = chooser.choice(sorted(slots))
            line = self._line("families", fact.family, "questions", slot)
            yield self._question(line, fact, chooser.choice(self._arms)), None
        family = chooser.choice(RESULTS)
        words = self._topic(family)
        if words and chooser.random() < 0.4:
            slot = chooser.choice(self._wording.slots(family))
            line = self._line("families", family, "questions", slot)
            fact = Fact(family, words, {})
            yield self._question(line, fact, chooser.choice(self._arms)), None

    def _stranger(self) -> Arm | None:
        """A group that is not in the study; None if there is no such name."""
        arm = self._arms[0]
        names = self._wording.drugs
        if arm.kind == "people":
            return None
        if arm.kind == "procedure":
            names = self._wording.lines("words", "procedures")
        if arm.kind == "group":
            lines = self._wording.lines("words", "labels")
            labels = [line.split("|") for line in lines]
            names = next(row for row in labels if arm.name in row)
        taken = {arm.name for arm in self._arms}
        free = [name for name in names if name not in taken]
        if not free:
            return None
        return Arm(self._chooser.choice(free), arm.kind, unit=arm.unit)


def in_words(form: str, name: str) -> str:
    """A group in a form such as "in the {x} group"; of two articles the first stays."""
    return _TWO_ARTICLES.sub("the ", form.format(x=name))


def abbreviation(name: str) -> str:
    """The initials of a name of several words, or three letters of one word."""
    words = name.split()
    if len(words) > 1:
        return "".join(word[0] for word in words).upper()
    consonants = re.sub("[aeiou]", "", name[1:])
    return (name[0] + consonants[:1] + name[-1]).upper()


def make(
    side: str, *, data: Path, count: int, seed: int = 0
) -> list[dict[str, Any]]:
    """`count` made-up texts of a side, each as an article of SQuAD 2.0."""
    chooser = random.Random(f"{seed} {side}")  # noqa: S311  (no secret)
    wording = Wording(side, data)
    articles: list[dict[str, Any]] = []
    while len(articles) < count:
        study = Study(wording, chooser)
        title = f"contrast {side} {len(articles)}"
        questions = [
            _squad(f"{title} {number}", study.text, asked)
            for number, asked in enumerate(study.questions)
        ]
        if questions:
            paragraph = {"context": study.text, "qas": questions}
            articles.append({"title": title, "paragraphs": [paragraph]})
    return articles


def _squad(name: str, text: str, asked: Asked) -> dict[str, Any]:
    question, span = asked
    answers = []
    if span:
        start, end = span
        answers = [{"text": text[start:end], "answer_start": start}]
    return {
        "id": name,
        "question": question,
        "answers": answers,
        "is_impossible": not answers,
    }


@one_line_errors
def main(
    out: Annotated[Path, typer.Argument(help="The folder to write.")],
    data: Annotated[Path, typer.Option(help="The public data.")] = Path(
        "../shared/data"
    ),
    seed: Annotated[int, typer.Option(help="Of all random choices.")] = 0,
) -> None:
    """Write the questions of the three sides."""
    out.mkdir(parents=True, exist_ok=True)
    for side, count in COUNTS.items():
        articles = make(side, data=data, count=count, seed=seed)
        file = out / f"{side}.json"
        write_json({"version": "2.0", "data": articles}, file)
        say(f"{count} texts in {file}")


if __name__ == "__main__":
    typer.run(main)
