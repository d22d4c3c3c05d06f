"""Atoms: what is found in lines as agents see them, what is not, normal forms, and look-ups at word boundaries."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.atoms import Haystack, aliases, bits, extract, found, normal, variants


@pytest.mark.parametrize(
    ("line", "atoms"),
    [
        ("see https://docs.example.org/a/b?x=1#top, then go on.", [("url", "https://docs.example.org/a/b?x=1#top")]),
        ("(https://example.org/path).", [("url", "https://example.org/path")]),
        ("E   ValueError: bad port 'x'", [("error", "ValueError: bad port 'x'")]),
        ("started 2026-01-05T08:00:12Z", [("date", "2026-01-05T08:00:12Z")]),
        ("due on 2026-01-05", [("date", "2026-01-05")]),
        ("in src/bench/atoms.py:12 and README.md", [("path", "src/bench/atoms.py"), ("path", "README.md")]),
        ("Saved to /var/log/app/run.log.", [("path", "/var/log/app/run.log")]),
        ("commit 8f3a21c9 pushed", [("hash", "8f3a21c9")]),
        ("uses httpx 0.27.2", [("version", "0.27.2")]),
        ("tag v2.0.0-rc.1", [("version", "v2.0.0-rc.1")]),
        ("lease ls-3aba63 taken", [("identifier", "ls-3aba63")]),
        ("listens on 10.0.0.12:8080", [("identifier", "10.0.0.12:8080")]),
        ("set RETRY_LIMIT now", [("identifier", "RETRY_LIMIT")]),
        ("48,213 rows in 412.7 ms at 3%", [("number", "48,213"), ("number", "412.7"), ("number", "3")]),
        ("delta -17", [("number", "-17")]),
    ],
)
def test_extraction(line, atoms):
    assert [(a.type, a.text) for a in extract(line)] == atoms
    assert all(line[a.start : a.end] == a.text for a in extract(line))


@pytest.mark.parametrize(
    "line",
    [
        "a plain sentence of words only, with an e.g. in it",
        "the cat sat; and/or",
        "deadbeef and facade are words of letters",  # no digit: a word, not a hash
        "x1 y2 utf8",  # a letter and a digit alone name nothing
        "file.unknownsuffix",
    ],
)
def test_what_is_no_atom(line):
    assert [a for a in extract(line) if a.text != "and/or"] == []


def test_no_atom_inside_another():
    found_atoms = extract("GET https://h.example:8443/v1.2.3/x.py took 12 ms, commit 8f3a21c9d0, see src/a1/b2.py")
    assert [a.type for a in found_atoms] == ["url", "number", "hash", "path"]
    assert all(a.end <= b.start for a, b in zip(found_atoms, found_atoms[1:]))


@pytest.mark.parametrize(
    ("type", "value", "form"),
    [
        ("path", "`./src//a.py:12`", "src/a.py"),
        ("path", "/srv/app/src/a.py", "src/a.py"),
        ("path", "/srv/application/a.py", "/srv/application/a.py"),
        ("path", "src/A.py", "src/A.py"),
        ("number", "1,234,567", "1234567"),
        ("number", "412.7 ms", "412.7"),
        ("number", "-17", "-17"),
        ("number", "none", "none"),
        ("version", "v1.2.0", "1.2"),
        ("version", "1.20.0", "1.20"),
        ("url", "HTTPS://Example.ORG:443/A/b/?q=1#x", "https://example.org/A/b?q=1"),
        ("url", "http://example.org:8080/", "http://example.org:8080"),
        ("error", "KeyError: 'x' at /tmp/a/b.py:12, line 7", "KeyError: 'x' at b.py, line"),
        ("date", "2026-01-05 08:00:12", "2026-01-05T08:00:12"),
        ("quote", " two\n  lines ", "two lines"),
        ("identifier", '"REQ-5af875"', "REQ-5af875"),
        ("hash", "'8f3a21c9'", "8f3a21c9"),
    ],
)
def test_normal_forms(type, value, form):
    assert normal(value, type, "/srv/app") == form


@given(st.sampled_from(["path", "number", "version", "url", "date", "quote", "identifier", "hash"]), st.text(max_size=20))
def test_every_text_has_a_normal_form(type, value):
    assert isinstance(normal(value, type), str)


@pytest.mark.parametrize(
    ("needle", "text", "there"),
    [
        ("4821", "objects: 4821", True),
        ("4821", "objects: 48213", False),
        ("4821", "objects: 14821", False),
        ("4821", "took 4821ms", True),
        ("4821", "id a4821", False),
        ("4821", "0.4821", False),
        ("4821", "4821.5", False),
        ("4821", "it was 4821.", True),
        ("48213", "[1,48213,7]", True),
        ("build", "rebuild", False),
        ("build", "build_id", False),
        ("build", "(build)", True),
        ("src/a.py", "x/src/a.py", True),
        ("src/a.py", "src/a.pyc", False),
        ("abc", "xabc abc", True),  # the second time it stands free
        ("", "anything", False),
    ],
)
def test_found_at_word_boundaries(needle, text, there):
    assert found(needle, text) is there
    assert Haystack(text).found(needle) is there


def brute(needle: str, text: str) -> bool:
    """The definition as one pattern: no word character beside; beside a number no decimal, and a unit may follow it."""
    if not needle:
        return False
    numeric = needle.replace(".", "").replace(",", "").isdigit()
    word = r"\w"
    left = rf"(?<!{word})" if re.match(word, needle[0]) else ""
    right = (r"(?!\d)" if numeric else rf"(?!{word})") if re.match(word, needle[-1]) else ""
    if numeric:
        left += r"(?<!\d\.)" if needle[0].isdigit() else ""
        right += r"(?!\.\d)" if needle[-1].isdigit() else ""
    return re.search(left + re.escape(needle) + right, text) is not None


TEXT = st.text("ab1_2.,:/- \n", max_size=24)


@given(TEXT, st.text("ab1_2.,:/-", max_size=5))
def test_look_ups_are_the_brute_force_definition(text, needle):
    assert found(needle, text) == Haystack(text).found(needle) == brute(needle, text)


@given(TEXT, st.data())
def test_what_stands_between_spaces_is_found(text, data):
    pieces = text.split()
    if pieces:
        assert Haystack(text).found(data.draw(st.sampled_from(pieces)))


@pytest.mark.parametrize(
    ("value", "type", "text", "occurs", "given_away"),
    [
        ("8f3a21c9d0e1", "hash", "at 8f3a21c", False, True),  # a short hash
        ("8f3a21c9d0e1", "hash", "at 8f3a21", False, False),
        ("8f3a21c9d0e1", "hash", "at 8f3a21c9d0", False, True),
        ("src/deep/name.py", "path", "in deep/name.py", True, True),  # two last parts
        ("src/deep/name.py", "path", "in name.py", False, True),  # the bare name
        ("src/deep/name.py", "path", "in rename.py", False, False),
        ("1234567", "number", "1,234,567 rows", True, True),
        ("1,234,567", "number", "n=1234567", True, True),
        ("1234567", "number", "12345678", False, False),
        ("1.2.3", "version", "tag v1.2.3", True, True),
        ("v1.2.3", "version", "is 1.2.3 now", True, True),
        ("1.2.3", "version", "is 1.2.30", False, False),
        ("keep the name", "quote", "please keep\n  the name", True, True),
        ("keep the name", "quote", "keep a name", False, False),
    ],
)
def test_occurs_and_gives_away(value, type, text, occurs, given_away):
    assert Haystack(text).occurs(value, type) is occurs
    assert Haystack(text).gives_away(value, type) is given_away


@given(st.sampled_from(["path", "number", "version", "hash", "identifier"]), st.text("ab12./-", min_size=1, max_size=12))
def test_a_value_is_its_own_variant_and_every_variant_an_alias(type, value):
    assert set(variants(value, type)) <= set(aliases(value, type))
    assert Haystack(f"x {value} y").occurs(value, type) or type == "version"


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [("4821", 13, 14), ("482137", 19, 20), ("8f3a21c9", 32, 32), ("12.50", 13, 14), ("ab", 5, 8), ("REQ-5af875", 20, 40)],
)
def test_bits(value, least, most):
    assert least <= bits(value) <= most


def test_more_characters_are_more_bits():
    assert bits("1") < bits("12") < bits("123abc") < bits("123abcdef")
