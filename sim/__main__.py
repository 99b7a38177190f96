"""``python -m sim`` is the command ``headway``."""

from sim.cli import main

main()
