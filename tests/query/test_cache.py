"""Answers that are kept for seconds."""

from query.cache import AnswerCache
from query.question import Made, Question


def test_an_answer_is_kept_for_its_seconds_and_those_asked_for_last_stay() -> None:
    cache, questions = AnswerCache(5, 80), [Question.of("spans", 1, n) for n in range(9)]
    for number, question in enumerate(questions):
        cache.put(question, Made(bytes([number]) * 10), 100.0)
        assert cache.get(questions[0], 101.0) is not None
    assert cache.size == 80
    assert [n for n, question in enumerate(questions) if cache.get(question, 104.9) is None] == [1]
    assert [cache.get(question, 105.0) for question in questions] == [None] * 9
    assert cache.size == 0
    cache.put(questions[0], Made(b"x" * 11), 100.0)
    assert cache.get(questions[0], 100.0) is None, "larger than an eighth"
