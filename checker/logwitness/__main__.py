"""``python -m logwitness`` is the command ``logwitness``."""

from .cli import main

if __name__ == "__main__":
    main(prog_name="logwitness")
