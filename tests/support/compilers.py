"""What torch's inductor needs besides."""

import shutil

import pytest

needs_compiler = pytest.mark.skipif(not any(map(shutil.which, ("g++", "clang++", "c++"))), reason="inductor needs a C++ compiler")
