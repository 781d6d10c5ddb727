"""`Medication`, a drug of a note, and `Attribute`, words of the text about it."""

from dataclasses import dataclass

KINDS = (
    "dose",
    "unit",
    "route",
    "frequency",
    "duration",
    "form",
    "as_needed",
    "reason",
    "reaction",
)


@dataclass(frozen=True)
class Attribute:
    """A part of a text that says something about a drug; `text[start:end]` is its text.

    Attributes:
        kind: one of `KINDS`.
    """

    kind: str
    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Medication:
    """A drug of a text with its attributes in the order of the text.

    Attributes:
        status: "started", "stopped", "changed", "continued" or "held"; "no allergy" if the text
            says that the patient has no allergy to it; None if it says nothing.
        assertion: the drug's assertion; see `biomed.Entity`.
        same_as: where the drug starts of which this is another name, as in "Lisinopril (Zestril)";
            both have the same attributes, and exports have the first one only.
    """

    start: int
    end: int
    text: str
    status: str | None = None
    attributes: tuple[Attribute, ...] = ()
    assertion: str = "present"
    same_as: int | None = None

    def __getitem__(self, kind: str) -> str | None:
        """The attribute of a kind as the text writes it; several are joined by " | "."""
        texts = [part.text for part in self.attributes if part.kind == kind]
        return " | ".join(texts) or None
