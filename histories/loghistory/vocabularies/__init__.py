"""The vocabularies of the history, one a module; each module has its table under the name ``VOCABULARY``.

A module that is put here is found, without being listed anywhere.
"""

from __future__ import annotations

import importlib
import pkgutil

from ..vocabulary import Vocabulary


def all_vocabularies() -> tuple[Vocabulary, ...]:
    """The vocabularies of all modules here, by name of the module."""
    modules = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(importlib.import_module(f"{__name__}.{name}").VOCABULARY for name in modules)
