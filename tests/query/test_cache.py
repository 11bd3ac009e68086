"""Answers that are kept for seconds."""

from query.scheduler import QueryKey, ResultCache
from query.send_buffer import JsonResult


def test_an_answer_is_kept_for_its_seconds_and_those_asked_for_last_stay() -> None:
    cache, questions = ResultCache(5, 80), [QueryKey.of("spans", 1, n) for n in range(9)]
    for number, question in enumerate(questions):
        cache.put(question, JsonResult(bytes([number]) * 10), 100.0)
        assert cache.get(questions[0], 101.0) is not None
    assert cache.size_bytes == 80
    assert [n for n, question in enumerate(questions) if cache.get(question, 104.9) is None] == [1]
    assert [cache.get(question, 105.0) for question in questions] == [None] * 9
    assert cache.size_bytes == 0
    cache.put(questions[0], JsonResult(b"x" * 11), 100.0)
    assert cache.get(questions[0], 100.0) is None, "larger than an eighth"
