"""The foundation of `clinical` and `biomed`: encoders, text and tables, nothing medical."""

import ast
import importlib
import pkgutil
import sys
from collections.abc import Callable

__version__ = "0.1.0"


def imported_on_use(
    package: str,
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package whose names are imported on first use.

    So its command starts without torch. The public names are those that the package's stub,
    `__init__.pyi`, imports; type checkers read them there too (Scientific Python's SPEC 1).
    """
    stub = pkgutil.get_data(package, "__init__.pyi") or b""
    modules: dict[str, str] = {}
    for node in ast.parse(stub).body:
        if isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names]
            modules |= dict.fromkeys(names, node.module or "")

    def load(name: str) -> object:
        if name not in modules:
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}"
            )
        module = importlib.import_module(modules[name])
        value = getattr(module, name)
        # A submodule of the same name would hide the function when it is imported.
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: list(modules), list(modules)
