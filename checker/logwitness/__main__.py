"""``python -m logwitness`` is the command ``logwitness``."""

from .start import main

if __name__ == "__main__":
    main()
