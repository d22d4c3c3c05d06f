from __future__ import annotations

import os
import re
from collections.abc import Iterable
from urllib.parse import urlsplit, urlunsplit

PLACEHOLDER = "no-key-needed"  # clients want some key, servers of one's own ignore it
_SECRET = re.compile("KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL")
_SHORTEST = 8  # a shorter value is no key, and taking it out would garble the text


def hide(text: str, keys: Iterable[str | None] = ()) -> str:
    """`text` without any of `keys`, and without any value of the environment whose variable sounds like a secret.

    A provider repeats the key in the words of its refusal, and its client may have found that key itself.
    """
    values = {value for name, value in os.environ.items() if _SECRET.search(name.upper())} | {key for key in keys if key}
    for value in sorted(values - {PLACEHOLDER}, key=len, reverse=True):
        if len(value) >= _SHORTEST:
            text = text.replace(value, "[key]")
    return text


def without_login(url: str) -> str:
    """A URL without the user name and the password in it."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
