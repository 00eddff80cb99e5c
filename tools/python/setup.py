"""Builds the wheel, which contains a program and a shared library but no extension module of Python: its tag is
py3-none-PLATFORM. tools/package/wheel calls it."""

import pathlib

from setuptools import Distribution, setup

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1, as in Debian 12
    from wheel.bdist_wheel import bdist_wheel


class PlatformDistribution(Distribution):
    def has_ext_modules(self):
        return True


class PlatformWheel(bdist_wheel):
    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


if not pathlib.Path("heed/libheed_check.so").exists():
    raise SystemExit("heed/libheed_check.so is missing: build the wheel with tools/package/wheel")
setup(distclass=PlatformDistribution, cmdclass={"bdist_wheel": PlatformWheel})
