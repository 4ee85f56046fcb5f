"""Settings of the documentation; `make docs` builds it, offline and without warnings."""

from __future__ import annotations

import sys
from pathlib import Path

import fbed

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_extensions"))

project = "fbed"
author = "The fbed developers"
copyright = author  # the name that Sphinx looks for
version = release = fbed.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
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
default_role = "py:obj"  # `name` in a docstring is a link where there is something to link to

# Gallery: every script runs at every build.
sphinx_gallery_conf = {
    "examples_dirs": str(DOCS.parent / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
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
    "secondary_sidebar_items": {"families": [], "**": ["page-toc"]},  # a wide table needs the room
}
