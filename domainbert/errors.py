"""Errors that the user can correct: shown as one line, without a traceback."""


class UserError(ValueError):
    """Bad input, a wrong setting or an unusable file; the message says how to fix it.

    Commands print it as one line. Any other exception is a bug and keeps its traceback. The
    message never quotes note text.
    """


class EncoderError(UserError):
    """An encoder or a model folder that cannot be found or used."""
