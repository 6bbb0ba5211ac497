"""``python -m osmef``."""

from osmef.cli.main import main

main()
