"""`python -m odradek`: the command, where no script of that name is installed."""

import sys

from odradek.cli.main import main

sys.exit(main())
