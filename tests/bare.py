"""An environment with the required dependencies of the package and nothing else."""

import re
import sys
import tomllib
import venv
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def distributions(requirements):
    """The names of the distributions that some requirements install, with all they need."""
    names = set()
    waiting = [(Requirement(text), "") for text in requirements]
    seen = set()
    while waiting:
        requirement, asked = waiting.pop()
        marker = requirement.marker
        if marker and not marker.evaluate({"extra": asked}):
            continue
        names.add(canonical(requirement.name))
        for extra in {"", *requirement.extras}:
            if (requirement.name, extra) not in seen:
                seen.add((requirement.name, extra))
                waiting += [
                    (Requirement(text), extra)
                    for text in metadata.requires(requirement.name) or ()
                ]
    return names


def required():
    return distributions(PROJECT["dependencies"])


def of_extra(extra):
    """The modules that an extra installs and the package alone does not."""
    optional = distributions(PROJECT["optional-dependencies"][extra])
    optional -= required()
    return {
        module
        for module, owners in metadata.packages_distributions().items()
        if optional & {canonical(owner) for owner in owners}
    }


def make_environment(folder):
    """A virtual environment with links to the files of the required dependencies.

    Returns its Python and its folder of packages.
    """
    venv.create(folder, with_pip=False)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / version / "site-packages"
    for name in required():
        distribution = metadata.distribution(name)
        tops = {file.parts[0] for file in distribution.files}
        for top in tops - {"..", "__pycache__"}:
            link = packages / top
            if not link.is_symlink():
                link.symlink_to(Path(distribution.locate_file(top)))
    return folder / "bin" / "python", packages
