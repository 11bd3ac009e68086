"""Which commit is suspected first."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control.code.suspects.rules import MAX_COMMITS, MAX_FRAMES, MAX_SUSPECTS, Candidate, rank
from proto.stack_traces import SourceFrame, source_frames
from sluice.git_history import GitCommit
from tests.control.code.suspects.stories import STORIES, Story, history
from tests.selection import scaled

WANTED = 8  # of the stories


def candidate(one: GitCommit, repository: str, position: int) -> Candidate:
    at = datetime.fromisoformat(one.authored_at)
    return Candidate(repository, one.sha, one.message, one.files, at, position)


def first_suspect(story: Story, directory: Path) -> str:
    """The first line of the message of the commit that is suspected first."""
    ours = [(one, "shop/web") for one in history(directory / "ours", story.steps)]
    theirs = [(one, "shop/other") for one in history(directory / "theirs", story.others)] if story.others else []
    commits = [candidate(*one, position) for position, one in enumerate([*theirs, *ours])]
    suspects = rank(source_frames(story.stacktrace), commits)
    return suspects[0].candidate.message.partition("\n")[0] if suspects else "nobody"


def test_the_culprit_is_suspected_first_in_most_stories(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = [(story, first_suspect(story, tmp_path / str(number))) for number, story in enumerate(STORIES)]
    right = [story.name for story, first in found if first == story.culprit]
    with capsys.disabled():
        print()  # noqa: T201
        for story, first in found:
            print(f"  {'right' if story.name in right else 'WRONG'}: {story.name}: {first}")  # noqa: T201
        print(f"  {len(right)} of {len(STORIES)} culprits in first place")  # noqa: T201
    assert len(STORIES) == 10
    assert len(right) >= WANTED


def commit(sha: str, *files: str, message: str = "Change", position: int = 0, age: int = 0) -> Candidate:
    at = datetime(2026, 11, 20, tzinfo=UTC) - timedelta(hours=age)
    return Candidate("shop/web", sha, message, files, at, position)


def order(*commits: Candidate, frames: tuple[str, ...] = ("/app/src/shop/cart.py", "/app/src/shop/api.py")) -> str:
    """The hashes of the suspects."""
    return "".join(one.candidate.sha for one in rank([SourceFrame(file, "total") for file in frames], commits))


def test_upper_frames_weigh_more() -> None:
    assert order(commit("a", "src/shop/api.py"), commit("b", "src/shop/cart.py", age=9)) == "ba"


def test_longer_ends_of_paths_weigh_more() -> None:
    assert order(commit("a", "cart.py"), commit("b", "lib/shop/cart.py", age=9)) == "b", "the other is another file"
    assert order(commit("a", "x/api.py"), commit("b", "x/shop/cart.py"), commit("c", "src/shop/api.py")) == "bc"


def test_the_newer_one_of_equals_comes_first() -> None:
    equal = commit("a", "src/shop/cart.py", age=2), commit("b", "src/shop/cart.py", age=1)
    assert order(*equal) == order(*equal[::-1]) == "ba"


def test_large_and_cosmetic_commits_weigh_less() -> None:
    small = commit("a", "src/shop/cart.py", age=9)
    large = commit("b", "src/shop/cart.py", *(f"f{n}.py" for n in range(100)))
    cosmetic = commit("c", "src/shop/cart.py", message="docs: explain carts")
    assert order(small, large, cosmetic) == "abc"
    assert order(small, commit("d", "src/shop/cart.py", message="Totals")) == "da"


def test_commits_of_other_files_are_not_suspected() -> None:
    assert order(commit("a", "src/shop/mail.py"), commit("b"), commit("c", "docs/cart.py.md")) == ""
    assert rank([], [commit("a", "cart.py")]) == []
    assert rank([SourceFrame("", "f"), SourceFrame("///", "f")], [commit("a", "cart.py")]) == []


def name(path: str) -> str:
    return next(part for part in reversed(path.split("/")) if part not in ("", "..", "."))


PATHS = st.lists(st.sampled_from(["src", "app", "shop", "cart.py", "api.py", "", "..", "é", "\x00"]), max_size=5).map(
    "/".join
)
COMMITS = st.lists(
    st.builds(
        Candidate,
        st.sampled_from(["a", "b"]),
        st.text("0123456789abcdef", min_size=1, max_size=3),
        st.text(max_size=20) | st.sampled_from(["Rename it", "total of carts", "docs: x"]),
        st.lists(PATHS, max_size=4).map(tuple),
        st.none() | st.datetimes(datetime(1970, 1, 2), datetime(9999, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
        st.integers(0, 5),
        st.booleans(),
    ),
    max_size=8,
    unique_by=lambda one: (one.repository, one.sha),
)
FRAMES = st.lists(st.builds(SourceFrame, PATHS, st.text(max_size=10) | st.just("total_of")), max_size=5)


@settings(max_examples=scaled(40, 500))
@given(frames=FRAMES, commits=COMMITS, random=st.randoms(use_true_random=False))
def test_the_ranking_depends_on_nothing_else(
    frames: list[SourceFrame], commits: list[Candidate], random: Random
) -> None:
    found = rank(frames, commits)
    shuffled = list(commits)
    random.shuffle(shuffled)
    assert rank(frames, shuffled) == found
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    for one in found:
        assert one.score > 0
        assert one.reasons
        for reason in one.reasons:
            assert reason.frame in frames
            assert reason.file in one.candidate.files
            assert name(reason.file) == name(reason.frame.file)


@settings(max_examples=scaled(40, 500))
@given(commits=COMMITS, extra=st.integers(1, 50))
def test_files_without_a_match_never_help(commits: list[Candidate], extra: int) -> None:
    """Whatever else a commit changes, it is suspected less."""
    frames = [SourceFrame("/app/src/shop/cart.py", "total")]
    more = tuple(f"other/{number}.txt" for number in range(extra))
    wider = [
        Candidate(one.repository, one.sha, "Change", (*one.files, *more), one.authored_at, one.position)
        for one in commits
    ]
    plain = [Candidate(one.repository, one.sha, "Change", one.files, one.authored_at, one.position) for one in commits]
    before = {(one.candidate.repository, one.candidate.sha): one.score for one in rank(frames, plain)}
    for one in rank(frames, wider):
        assert one.score <= before[one.candidate.repository, one.candidate.sha]


def test_work_and_result_are_bounded() -> None:
    frames = [SourceFrame(f"/app/f{number}.py", "f") for number in range(MAX_FRAMES + 10)]
    late = commit("late", f"f{MAX_FRAMES + 1}.py")
    assert rank(frames, [late]) == []
    commits = [commit(f"{n:04}", "f0.py", position=n, age=n) for n in range(MAX_COMMITS + 1)]
    found = rank(frames, [*commits, commit("x", "f1.py", position=MAX_COMMITS + 5)])
    assert [one.candidate.sha for one in found] == [f"{n:04}" for n in range(MAX_SUSPECTS)]
