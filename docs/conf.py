"""The documentation site: `make docs` builds it with no network, warnings counted as errors."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import generate

from domainbert import __version__

project = "domainbert"
author = "The domainbert authors"
copyright = author  # noqa: A001  (Sphinx's own name)
release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",  # Google's style of docstrings
]
exclude_patterns = ["_build"]
nb_execution_mode = (
    "off"  # the notebooks keep their outputs; the test suite runs them
)
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
default_role = "code"
suppress_warnings = ["mystnb.unknown_mime_type"]

html_theme = "furo"
html_title = f"domainbert {__version__}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False

# Pages made from the code: tutorials from notebooks/, commands, classes and the models' cards.
generate.write_pages(Path(__file__).parent)
