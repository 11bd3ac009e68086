"""Builds the decoder kernel; everything else is in pyproject.toml.

The kernel is optional: without a C++ compiler the install succeeds, says so, and the decoder in Python is used.
"""

from Cython.Build import cythonize
from setuptools import Extension, setup

kernel = Extension(
    "proto.otlp.kernel._kernel",
    ["proto/otlp/kernel/_kernel.pyx"],
    language="c++",
    extra_compile_args=["-O3", "-std=c++17", "-g0"],
    optional=True,
)

setup(ext_modules=cythonize([kernel], language_level=3))
