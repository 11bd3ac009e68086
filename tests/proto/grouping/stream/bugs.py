"""The known bugs: 25 in each of twelve runtimes, with their own functions, or with messages where there are none."""

from typing import Final, NamedTuple

BUGS_OF_RUNTIME: Final = 25
RUNTIMES: Final = (
    "python", "java", "kotlin", "scala", "node", "chrome", "firefox", "go", "rust", "dotnet", "ruby", "php",
)  # fmt: skip
_NOUNS: Final = ("Cart", "Order", "Invoice", "Refund", "Stock")
_VERBS: Final = ("load", "price", "validate", "merge", "ship")
_TEMPLATES: Final = (
    "order {id} of {user} has no lines",
    "no answer from {address} after {duration}",
    "{time} is in the past",
    "index {n} is out of range",
    "cannot open {path}",
)
_BARE: Final = "{verb} of {noun} {{id}} in {runtime} failed after {{duration}} at {{address}}"


class Bug(NamedTuple):
    """A bug: `frames` are the application's own (module, function), innermost first; none if only libraries are."""

    number: int
    runtime: str
    kind: str
    template: str
    frames: tuple[tuple[str, str], ...]
    is_wrapped: bool  # behind an error of the application that all wrapped bugs share
    is_recursive: bool  # through two functions, to a depth that is drawn


def bugs() -> list[Bug]:
    """All bugs, numbered from 0."""
    return [
        _bug(runtime, number + BUGS_OF_RUNTIME * index, number)
        for index, runtime in enumerate(RUNTIMES)
        for number in range(BUGS_OF_RUNTIME)
    ]


def _bug(runtime: str, number: int, of_runtime: int) -> Bug:
    noun_number = of_runtime % len(_NOUNS)
    noun, verb = _NOUNS[noun_number], _VERBS[of_runtime // len(_NOUNS)]
    is_bare = of_runtime % 8 == 3
    bare = _BARE.format_map({"verb": verb, "noun": noun, "runtime": runtime})
    frames = [(noun.lower(), verb + noun), ("handlers", f"show{noun}"), ("server", "handle")]
    if of_runtime % 6 == 1:  # below a function that others call, too
        frames.insert(0, ("database", "query"))
    return Bug(
        number,
        runtime,
        ("Declined", "NotFound", "Conflict")[of_runtime % 3],
        bare if is_bare else _TEMPLATES[noun_number],
        () if is_bare else tuple(frames),
        is_wrapped=of_runtime % 4 == 2,
        is_recursive=of_runtime % 7 == 5 and not is_bare,
    )
