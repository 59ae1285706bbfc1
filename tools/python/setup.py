"""Builds the compiled part with CMake in the repository around this folder; TRACECAST_BUILD_DIR says where, else build/release."""
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

if sys.version_info < (3, 9):
    sys.exit(f"tracecast: Python {sys.version.split()[0]} at {sys.executable}; expected 3.9 or later")
if not any(map(importlib.util.find_spec, ("setuptools.command.bdist_wheel", "wheel"))):
    sys.exit(f"tracecast: the Python at {sys.executable} has no package wheel; expected one that has, such as /usr/bin/python3, "
             "for which tools/setup.sh --python installs it")

ROOT = pathlib.Path(__file__).resolve().parents[2]


class CMakeBuild(build_ext):
    def build_extension(self, ext):
        build = pathlib.Path(os.environ.get("TRACECAST_BUILD_DIR", ROOT / "build" / "release"))
        options = ["-DTRACECAST_WITH_PYTHON=ON"]
        cache = build / "CMakeCache.txt"
        rules = build / "build.ninja"  # of a tree that was configured before pybind11 was there, too
        is_ready = rules.exists() and "tracecast_python" in rules.read_text()
        if not cache.exists():
            python = getattr(sys, "_base_executable", sys.executable)  # stays where a virtual environment goes
            options += ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DTRACECAST_BUILD_TESTS=OFF", "-DTRACECAST_UNITY=ON",
                        f"-DPython3_EXECUTABLE={python}"]
        if not is_ready:
            subprocess.run(["cmake", "-S", ROOT, "-B", build, *options], check=True)
        subprocess.run(["cmake", "--build", build, "--target", "tracecast_python"], check=True)
        built = build / "python" / "tracecast" / ("_core" + sysconfig.get_config_var("EXT_SUFFIX"))
        if not built.exists():
            sys.exit(f"{build} is built for another Python; expected this one: TRACECAST_BUILD_DIR=build/python")
        target = pathlib.Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(built, target)


setup(ext_modules=[Extension("tracecast._core", [])], cmdclass={"build_ext": CMakeBuild})
