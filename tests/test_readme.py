"""The Python examples in the README run, and print what the README says they print."""

import contextlib
import io
import re
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text()
#: A Python block, and the output block that follows it before the next Python block, if there is one.
EXAMPLES = re.findall(r"```python\n(.*?)```(?:(?:(?!```).)*?prints(?:(?!```).)*?```text\n(.*?)```)?", README, flags=re.DOTALL)


@pytest.mark.parametrize("example", range(len(EXAMPLES)))
def test_an_example_prints_what_the_readme_says(example):
    code, expected = EXAMPLES[example]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, f"README example {example}", "exec"), {"__name__": "example"})
    assert printed.getvalue() == expected


def test_there_are_examples():
    assert len(EXAMPLES) >= 2
