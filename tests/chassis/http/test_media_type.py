"""The charset of a body is UTF-8, however it is written; no other parameter counts."""

from chassis.http.body import is_utf_8

UTF_8 = [
    *("", ";", "; charset=utf-8", ";charset=UTF-8", '; charset="utf-8"', ' ; CharSet = "UTF-8" ', "; charset=utf8"),
    *("; charset=utf-8; charset=UTF-8", "; version=1.0; charset=utf-8", "; profile=latin1", "; x-charset=latin1"),
    *('; profile="a; charset=latin1"', '; profile="a\\"; charset=latin1"'),
]
OTHERS = [
    *("; charset=iso-8859-1", ";charset=UTF-16", '; charset="latin1"', "; CHARSET=us-ascii", "; charset="),
    *('; charset=""', "; charset=utf-8; charset=latin1", "; charset=latin1; charset=utf-8", "; charset = latin1"),
    *("; version=1.0;charset=utf-16le", '; profile="a"; charset=latin1'),
]


def test_utf_8_in_every_spelling_and_no_charset_are_utf_8_and_others_are_not() -> None:
    assert [text for text in UTF_8 if not is_utf_8("application/json" + text)] == []
    assert [text for text in OTHERS if is_utf_8("application/json" + text)] == []


def test_long_parameters_are_read_in_linear_time() -> None:
    """Each is read in linear time; a quadratic one would take minutes."""
    for part in (";", "; ", ";a", ";a=", ';a="', '\\"', "a ", ';a="\\', " "):
        is_utf_8("application/json;" + part * 200_000)
