"""Errors that the user can correct: shown as one line, without a traceback."""

from __future__ import annotations

import difflib


class UserError(ValueError):
    """Bad input, a wrong setting or a file that cannot be used; the message says how to fix it.

    Commands print it as one line. Any other exception is a bug and keeps its traceback. The
    message never quotes note text.
    """


class EncoderError(UserError):
    """An encoder or a model folder that cannot be found, or cannot be used as asked."""


def check_choice(what: str, value: str, known: tuple[str, ...]) -> None:
    """Raise `UserError` with the nearest known value if a value is not one of them."""
    if value not in known:
        near = difflib.get_close_matches(value.lower(), known, n=1)
        guess = f"; did you mean {near[0]!r}?" if near else ""
        raise UserError(f"unknown {what} {value!r}{guess}; expected one of {known}")
