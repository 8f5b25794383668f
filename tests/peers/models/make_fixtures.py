#!/usr/bin/env python3
"""Makes the committed archives of old PyTorch versions. For each version it links one program with
that version's own libraries.

For each version it fetches the wheel from PyPI (for a Python of that time, which is not needed),
takes out the headers and libraries, and compiles and runs write_fixture.cc (model_json_fixture.cc
before 1.4). GOLDEN/<version>/ gets net.pt and expected.txt. It needs g++, and 3 GB of disk in WORK.
The versions are made one after the other, and nothing stays in WORK.

usage: make_fixtures.py WORK GOLDEN [VERSION...]
"""

import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass
class Release:
    """The source of a wheel, and the libraries of it that the program needs."""

    python: str
    platform: str
    libraries: tuple[str, ...] = ("torch_cpu", "c10")
    program: str = "write_fixture.cc"
    # Wheels of libraries that libtorch_cpu is linked with. It looks for them beside the folder
    # torch.
    beside: tuple[str, ...] = ()


RELEASES = {
    "1.2.0": Release("3.7", "manylinux1_x86_64", ("torch", "c10"), "model_json_fixture.cc"),
    "1.4.0": Release("3.7", "manylinux1_x86_64", ("torch", "c10")),
    "1.5.1": Release("3.7", "manylinux1_x86_64"),
    "1.7.1": Release("3.7", "manylinux1_x86_64"),
    "1.9.1": Release("3.7", "manylinux1_x86_64"),
    "1.12.1": Release("3.10", "manylinux1_x86_64"),
    "2.2.0": Release(
        "3.11",
        "manylinux1_x86_64",
        beside=("nvidia-cuda-cupti-cu12==12.1.105", "nvidia-cuda-runtime-cu12==12.1.105"),
    ),
}

# Libraries that the programs never call, and that make the wheels large.
UNUSED = re.compile(
    r"torch/lib/(libtorch_cuda|libtorch_python|libcaffe2_|libcudnn|libnvrtc|libcublas"
    r"|libc10d_cuda).*"
)


def fetch(requirement: str, release: Release, work: Path) -> Path:
    """Fetches the wheel of a requirement, without its dependencies, for the release's Python."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
        "--no-cache-dir",
    ]
    folder = work / "wheel"
    command += [
        "--python-version",
        release.python,
        "--platform",
        release.platform,
        "--dest",
        str(folder),
        requirement,
    ]
    subprocess.run(command, check=True)
    (found,) = folder.glob("*.whl")
    return found


def unpack(wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as contents:
        for name in contents.namelist():
            wanted = name.startswith(
                ("torch/include/", "torch/lib/", "nvidia/")
            ) and not UNUSED.match(name)
            if wanted and not name.endswith(".a"):
                contents.extract(name, folder)
    wheel.unlink()


def make(version: str, work: Path, golden: Path) -> None:
    release = RELEASES[version]
    folder = work / version
    # An existing folder was left by a run that failed after fetching.
    if not folder.exists():
        for requirement in (f"torch=={version}", *release.beside):
            unpack(fetch(requirement, release, work), folder)
    library, include = folder / "torch" / "lib", folder / "torch" / "include"
    program = folder / "write_fixture"
    number = sum(
        int(part) * scale for part, scale in zip(version.split("."), (10000, 100, 1), strict=True)
    )
    # The wheels were built with the old ABI of libstdc++. The CUDA libraries that they name are not
    # there.
    command = [
        "g++",
        "-std=c++17" if number >= 20100 else "-std=c++14",
        "-w",
        "-D_GLIBCXX_USE_CXX11_ABI=0",
        f"-DTENON_TORCH={number}",
    ]
    command += [
        f"-I{include}",
        f"-I{include}/torch/csrc/api/include",
        str(HERE / release.program),
        "-o",
        str(program),
        "-pthread",
    ]
    command += [
        f"-L{library}",
        f"-Wl,-rpath,{library}",
        "-Wl,--allow-shlib-undefined",
        "-Wl,--no-as-needed",
    ]
    command += [f"-l{name}" for name in release.libraries]
    subprocess.run(command, check=True)
    output = golden / version
    output.mkdir(parents=True, exist_ok=True)
    # The archive's name is in its records.
    archive = output / "net.pt"
    said = subprocess.run(
        [str(program), str(archive)], check=True, capture_output=True, text=True
    ).stdout
    (output / "expected.txt").write_text(said)
    shutil.rmtree(folder)
    print(f"{version}: {archive.stat().st_size} bytes")


def main() -> int:
    work, golden = Path(sys.argv[1]), Path(sys.argv[2])
    work.mkdir(parents=True, exist_ok=True)
    for version in sys.argv[3:] or RELEASES:
        make(version, work, golden)
    return 0


if __name__ == "__main__":
    sys.exit(main())
