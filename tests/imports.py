"""Imports that cost less, with the same outcome."""

import inspect
import sys
import types
from typing import Any, Final

from pydantic._internal import _docs_extraction

_INSPECT: Final = types.ModuleType("inspect")


def find_docstrings_by_name() -> None:
    """Let pydantic find the module of a frame by its name. Below Python 3.13 it looks for the docstrings of a model in
    the frames that import it, and `inspect.getmodule` goes over all modules for each frame of importlib: with the
    modules and the frames of a suite that is a third of all imports, for the models of SCIM alone.
    """
    vars(_INSPECT).update(vars(inspect), getmodule=_module)
    vars(_docs_extraction)["inspect"] = _INSPECT


def _module(of: Any) -> types.ModuleType | None:
    return sys.modules.get(of.f_globals.get("__name__", "") if inspect.isframe(of) else of.__module__)
