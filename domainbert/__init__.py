"""The foundation under `clinical` and `biomed`: a BERT encoder and its text, nothing medical."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

__version__ = "0.1.0"


def imported_on_use(
    package: str, names: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package whose names are imported on first use.

    Args:
        package: its name.
        names: the public names, separated by spaces, by the module of the package they are in.
    """
    homes = {name: module for module, some in names.items() for name in some.split()}

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        # A module may have the name of the function in it: what is exported is the function.
        value = getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: [*homes], [*homes]
