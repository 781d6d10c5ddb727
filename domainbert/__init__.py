"""The foundation of `clinical` and `biomed`: encoders, text and tables, nothing medical."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping

__version__ = "0.1.0"


def imported_on_use(
    package: str, names: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package whose names are imported on first use.

    Args:
        package: its name.
        names: the public names, separated by spaces, of each module of the package.
    """
    modules: dict[str, str] = {}
    for module, exported in names.items():
        modules |= dict.fromkeys(exported.split(), module)

    def load(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f"{package}.{modules[name]}")
        value = getattr(module, name)
        # A submodule of the same name would hide the function when it is imported.
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: list(modules), list(modules)
