"""One fuzz process: libFuzzer's loop around the `check` of one target. `tests.fuzz.run` starts it."""

import ctypes
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.fuzz.targets import TARGETS

HOOK_VARIABLE: Final = "FUZZ_HOOK"  # the library that hands libFuzzer's call on, where libFuzzer is preloaded

_Mutator = Callable[[bytes, int, int], bytes]


def main(name: str, arguments: list[str]) -> None:
    """Never returns: libFuzzer ends the process. `arguments` begin with the command that starts it again."""
    atheris: Any = importlib.import_module("atheris")
    target = TARGETS[name]
    path = f"tests.fuzz.targets.{target.module}"
    if target.instrument:
        with atheris.instrument_imports(include=list(target.instrument)):
            module = importlib.import_module(path)
    else:
        module = importlib.import_module(path)
    options = {}
    if hasattr(module, "mutate"):
        hook = os.environ.get(HOOK_VARIABLE)
        mutator = _mutator(module.mutate, None if hook else _built_in(atheris))
        if hook is None:
            options["custom_mutator"] = mutator
        else:
            _set_mutator(hook, mutator)
    atheris.Setup(arguments, module.check, **options)
    _end_at_once()
    atheris.Fuzz()


def _end_at_once() -> None:
    """End the process when libFuzzer is done and calls `exit`: what C++ destroys then, threads of the engine use. A
    finding does not come here; libFuzzer ends the process before.
    """
    _kept.append(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: os._exit(0)))
    ctypes.CDLL(None)["__cxa_atexit"](_kept[-1], None, None)  # what `atexit` of C calls


def _built_in(atheris: Any) -> str:
    """The library that holds libFuzzer where none is preloaded."""
    folder = Path(atheris.path()) / "atheris"
    return str(next(folder.glob("core_with_libfuzzer*.so")))


def _mutator(mutate: Callable[..., bytes], library: str | None) -> _Mutator:
    """The target's mutator, with a seed of libFuzzer's as its only source of chance."""
    random = Random()
    own = ctypes.CDLL(library).LLVMFuzzerMutate
    own.restype = ctypes.c_size_t
    own.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t)

    def mutated(data: bytes, max_size: int) -> bytes:
        room = ctypes.create_string_buffer(data, max(max_size, len(data), 1))
        return room.raw[: own(room, len(data), max(max_size, 1))]

    def seeded(data: bytes, max_size: int, seed: int) -> bytes:
        random.seed(seed)
        changed: bytes = mutate(bytes(data), max_size, random, mutated)
        return changed[:max_size]

    return seeded


_kept: list[Any] = []  # callbacks that C holds


def _set_mutator(hook: str, mutator: _Mutator) -> None:
    prototype = ctypes.CFUNCTYPE(
        ctypes.c_size_t, ctypes.POINTER(ctypes.c_uint8), ctypes.c_size_t, ctypes.c_size_t, ctypes.c_uint
    )

    def called(data: Any, size: int, max_size: int, seed: int) -> int:
        changed = mutator(ctypes.string_at(data, size), max_size, seed)
        ctypes.memmove(data, changed, len(changed))
        return len(changed)

    _kept.append(prototype(called))
    ctypes.CDLL(hook).set_mutator(_kept[-1])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
