"""Users' errors are one line that says where, what, and what would be right."""

from sweep.errors import UserError, nearest


def test_an_error_is_one_line_with_place_value_allowed_and_near():
    error = UserError(
        "no such accelerator",
        file="points.csv",
        line=3,
        field="hardware",
        value="h100sxm",
        allowed="a catalogue name",
        near=["h100_sxm"],
    )
    assert error.message == (
        "points.csv: line 3: hardware=h100sxm: no such accelerator; "
        "allowed: a catalogue name; nearest: h100_sxm"
    )
    assert str(error) == error.message


def test_line_breaks_of_a_value_do_not_reach_the_message():
    assert "\n" not in UserError("bad\nvalue", field="f", value="a\nb").message


def test_what_a_terminal_cannot_show_is_escaped_and_what_is_long_is_cut():
    error = UserError(
        "bad\x1b[2J", file="a\x00b", field="f", value="\udc80" + "x" * 5000 + "\r", near=["\x07"]
    )
    assert error.message.isprintable()
    assert len(error.message) < 300
    assert error.message.startswith(r"a\x00b: f=\udc80xxx")
    assert len(UserError("y" * 10_000).message) < 1300


def test_a_place_that_is_known_is_not_replaced():
    assert UserError("bad", file="inner", line=3).located("outer", None).message == "inner: line 3: bad"
    assert UserError("bad").located("outer", 7).message == "outer: line 7: bad"


def test_nearest_ignores_case_and_keeps_the_candidates_spelling():
    assert nearest("qwen3_32B", ["Qwen3_32b", "llama"]) == ["Qwen3_32b"]
    assert nearest("zzz", ["Qwen3_32b"]) == []
