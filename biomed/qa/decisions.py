"""Questions answered by yes, no or maybe: PubMedQA and BioASQ."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from biomed.qa.formats import Node, read_json
from biomed.qa.questions import QuestionError
from domainbert.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

LABELS = ("yes", "no", "maybe")


@dataclass(frozen=True)
class DecisionQuestion:
    """A question, the text to decide it by, and the right label (None where it is not known)."""

    id: str
    text: str = field(repr=False)
    context: str = field(repr=False)
    label: str | None


def read_decisions(path: str | Path) -> list[DecisionQuestion]:
    """Read PubMedQA (an object of questions by PubMed id) or the yes/no questions of BioASQ.

    The context is PubMedQA's abstract without its conclusion, or BioASQ's snippets, a line each.

    Raises:
        QuestionError: no such file, malformed JSON, a field that is missing or of another type
            (each with its place), a label that is none, or no such question.
    """
    path = Path(path)
    if not path.is_file():
        msg = f"{path}: no such file"
        raise QuestionError(msg)
    document = read_json(path)
    if not isinstance(document, dict):
        msg = f"{path.name} is neither PubMedQA nor BioASQ: it holds {type(document).__name__}"
        raise QuestionError(msg)
    if "questions" in document:
        nodes = Node(document, path.name).each("questions")
        found = [_bioasq(node) for node in nodes if node.text("type") == "yesno"]
    else:
        found = [
            _pubmedqa(Node(value, f"{path.name}[{place}]"), number)
            for place, (number, value) in enumerate(document.items())
        ]
    if not found:
        msg = f"{path.name} has no yes/no question"
        raise QuestionError(msg)
    ids = [question.id for question in found]
    if len(set(ids)) < len(ids):
        msg = f"{path.name}: {len(ids) - len(set(ids))} ids stand for several questions"
        raise QuestionError(msg)
    return found


def _pubmedqa(node: Node, number: str) -> DecisionQuestion:
    context = "\n".join(part.value for part in node.each("CONTEXTS") if isinstance(part.value, str))
    label = _label(node, "final_decision")
    return DecisionQuestion(number, node.text("QUESTION"), _some(context, node), label)


def _bioasq(node: Node) -> DecisionQuestion:
    snippets = node.each("snippets") if node.has("snippets") else ()
    context = "\n".join(snippet.text("text") for snippet in snippets)
    number = str(node.get("id", (str, int)))
    return DecisionQuestion(
        number, node.text("body"), _some(context, node), _label(node, "exact_answer")
    )


def _some(context: str, node: Node) -> str:
    if not context.strip():
        msg = f"{node.place} has no text to decide it by"
        raise QuestionError(msg)
    return context


def _label(node: Node, name: str) -> str | None:
    if not node.has(name):
        return None
    value: Any = node.value[name]
    label = value.strip().lower() if isinstance(value, str) else None
    if label not in LABELS:
        msg = f"{node.place}.{name} is none of {', '.join(LABELS)}"
        raise QuestionError(msg)
    return label


def folds(questions: Sequence[DecisionQuestion], *, count: int) -> list[list[DecisionQuestion]]:
    """Deal questions into folds with like shares of each label.

    Within a label they are ordered by the SHA-256 of their id and dealt out in turn, so that the
    same question always falls into the same fold, whatever the order of the file.

    Args:
        questions: with known labels.
        count: of folds, >= 2.

    Raises:
        ValueError: fewer than 2 folds, or fewer questions than folds.
    """
    if not 2 <= count <= len(questions):
        msg = f"folds must be between 2 and the {len(questions)} questions, got {count}"
        raise UserError(msg)
    dealt: list[list[DecisionQuestion]] = [[] for _ in range(count)]
    ordered = sorted(questions, key=lambda q: (str(q.label), _hash(q.id)))
    for number, question in enumerate(ordered):
        dealt[number % count].append(question)
    return dealt


def _hash(number: str) -> str:
    return hashlib.sha256(number.encode("utf-8", "replace")).hexdigest()
