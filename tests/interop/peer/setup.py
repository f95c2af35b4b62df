"""What a run needs of this machine: packages, the guests' images, our own programs."""

import concurrent.futures
import os
import shutil
import subprocess
import tempfile

from .lab import tool

APT_LOCK_SECONDS = 300  # another run may be installing the same
_INTEROP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_ROOT = os.path.dirname(os.path.dirname(_INTEROP))


class SetupError(Exception):
    """This machine can't run the tests."""


def needs_root():
    if os.geteuid() != 0:
        raise SetupError("needs root: network namespaces, taps and AF_XDP")


def install_packages():
    missing = _guest_build("packages").split()
    if missing:
        print(f"interop: installing {' '.join(missing)}", flush=True)
        environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
        apt = ["apt-get", "-qq", "-o", f"DPkg::Lock::Timeout={APT_LOCK_SECONDS}"]
        subprocess.run([*apt, "update"], env=environment, check=True)
        subprocess.run([*apt, "install", "--yes", "--no-install-recommends", *missing],
                       env=environment, stdout=subprocess.DEVNULL, check=True)


def guest_images(kernels):
    """The images by kernel; what has to be built is built at the same time."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        return dict(zip(kernels, pool.map(guest_image, kernels)))


def guest_image(kernel):
    """The image of this content, built when it is not there yet."""
    store = os.environ.get("ROCKHOPPER_PEER_DIR", "/var/tmp/rockhopper-peer")
    image = os.path.join(store, _guest_build("key", kernel).strip())
    if not os.path.isdir(image):
        print(f"interop: building the {kernel} guest in {image}", flush=True)
        os.makedirs(store, exist_ok=True)
        unfinished = tempfile.mkdtemp(dir=store, prefix="unfinished-")
        try:
            _guest_build("image", kernel, unfinished)
            try:
                os.rename(unfinished, image)
            except OSError:
                if not os.path.isdir(image):  # another run was faster
                    raise
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return image


def versions(image):
    """The kernel's package in an image."""
    with open(os.path.join(image, "versions"), encoding="utf-8") as file:
        return file.readline().split()[0]


def _guest_build(*words):
    done = subprocess.run([os.path.join(_INTEROP, "guest", "build"), *words], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SetupError(f"guest/build {words[0]} failed")
    return done.stdout


def build_tools():
    """Paths of roce-responder and roce-pcap: from the environment, else built."""
    if not (os.environ.get("ROCE_RESPONDER") and os.environ.get("ROCE_PCAP")):
        # Without Parquet and Arrow, which take minutes to build and judge nothing.
        judge = ["roce-pcap", "--no-default-features", "--features", "cli,compression,profiles,replay-port"]
        for package in (["dpu-app"], judge):
            subprocess.run(["cargo", "build", "--locked", "--quiet", "--release", "--bins", "-p", *package], cwd=_ROOT,
                           check=True)
    responder, roce_pcap = tool("roce-responder"), tool("roce-pcap")
    if responder is None or roce_pcap is None:
        raise SetupError("cargo built no roce-responder or no roce-pcap")
    return responder, roce_pcap
