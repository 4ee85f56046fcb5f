"""Settings of the documentation; `make docs` builds it, offline and without warnings."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_extensions"))

project = "fbed"
author = "The fbed developers"
copyright = author  # noqa: A001  # the name that Sphinx looks for
version = release = metadata.version("fbed")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "when_there",
]
exclude_patterns = ["_build", "_extensions"]

# Pages: Markdown that reads well on its own, with links to headings and formulas between dollar signs.
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 4

# Reference: numpydoc makes sections of docstrings; members are listed by hand, so that the page has an order.
autodoc_member_order = "bysource"
autodoc_typehints = "none"
numpydoc_show_class_members = False
add_module_names = False

# Gallery: every script runs at every build.
sphinx_gallery_conf = {
    "examples_dirs": str(DOCS.parent / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 1e9,
    "remove_config_comments": True,
}

# '>>>' and what is printed stay behind when an example is copied.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True

html_theme = "pydata_sphinx_theme"
html_title = f"fbed {release}"
html_static_path = ["_static"]
html_css_files = ["fbed.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "fbed"},
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
