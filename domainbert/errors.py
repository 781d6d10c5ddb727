"""Errors that the user can correct: shown as one line, without a traceback."""


class UserError(ValueError):
    """Bad input, a wrong setting or an unusable file; the message says how to fix it.

    Commands print it as one line. Any other exception is a bug and keeps its traceback. The
    message never quotes note text.
    """


class EncoderError(UserError):
    """An encoder or a model folder that cannot be found or used."""


def missing_extra(error: ImportError, extra: str) -> UserError:
    """The error for a module that only an extra of the package installs, or for one too old."""
    package = (error.name or extra).partition(".")[0]
    fault = f"{package} is too old"
    if isinstance(error, ModuleNotFoundError):
        fault = f"no {package}"
    return UserError(
        f"{fault}: run {extra_command(extra)} in a checkout of domainbert"
    )


def extra_command(extra: str) -> str:
    """How to install an extra, in a checkout: no registry has the package."""
    return f"pip install '.[{extra}]'"
