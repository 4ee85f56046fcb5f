"""`python -m fbed` is the command `fbed`."""

from __future__ import annotations

import sys

from fbed.cli.command import main

sys.exit(main())
