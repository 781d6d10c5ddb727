"""An answer marked in its context: HTML in a notebook, colours in a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from biomed.ner.entities import Entity, TaggedView

if TYPE_CHECKING:
    from rich.text import Text

    from biomed.qa.answerer import Answer

AROUND = 500  # characters shown on each side of an answer
NO_ANSWER = "No answer was found."


@dataclass(frozen=True)
class AnswerView:
    """A context and its answers, each shown with the text around it, for a notebook or `print`."""

    text: str
    answers: tuple[Answer, ...]

    def _repr_html_(self) -> str:
        """Escaped HTML without scripts, style sheets or external files."""
        return "<hr>".join(view._repr_html_() for view in self._views())

    def __rich__(self) -> Text:
        """Coloured text for a rich console."""
        from rich.text import Text

        return Text("\n\n").join(view.__rich__() for view in self._views())

    def __str__(self) -> str:
        """Text with terminal colours."""
        return "\n\n".join(str(view) for view in self._views())

    def _views(self) -> list[TaggedView]:
        views = [self._view(answer) for answer in self.answers if answer.is_found]
        return views or [TaggedView(NO_ANSWER, (), ())]

    def _view(self, answer: Answer) -> TaggedView:
        """An answer and the text around it, cut between words."""
        start = min(self._word_edge(answer.start - AROUND), answer.start)
        end = self._word_edge(answer.end + AROUND)
        before, after = "… " * (start > 0), " …" * (end < len(self.text))
        moved = len(before) - start
        span = Entity(answer.start + moved, answer.end + moved, answer.text, "answer", answer.score)
        return TaggedView(before + self.text[start:end] + after, (span,), ("answer",))

    def _word_edge(self, at: int) -> int:
        """The first position from `at` that does not cut a word."""
        at = min(max(at, 0), len(self.text))
        while 0 < at < len(self.text) and not self.text[at].isspace():
            at += 1
        return at
