"""Builds the decoder kernel; everything else is in pyproject.toml.

The kernel is optional: without a C++ compiler the install succeeds, says so, and the decoder in Python is used.
"""

from Cython.Build import cythonize
from setuptools import Extension, setup

kernel = Extension(
    "proto.otlp.kernel._kernel",
    ["proto/otlp/kernel/_kernel.pyx"],
    language="c++",
    # Many small functions on a hot path: the usual limits on inlining cost a third of the speed.
    extra_compile_args=[
        "-O3",
        "-std=c++17",
        "-g0",
        "-fno-strict-aliasing",
        "--param=max-inline-insns-single=2000",
        "--param=inline-unit-growth=500",
        "--param=large-function-growth=2000",
        "--param=large-unit-insns=200000",
    ],
)

modules = cythonize([kernel], language_level=3)
for module in modules:
    module.optional = True  # said here, for cythonize forgets it

setup(ext_modules=modules)
