"""A stand-in for podman, to be put on PATH under that name: it takes the command lines that we give to the real one.

It keeps them in GPIPE_EDU_STAND_IN, and does the work here: `build` keeps the context, `run` starts the image's
program with the package of that context, in namespaces of its own, as the options say. It is no proof of what podman
does; it shows that an image with nothing but the context is enough, and that the worker and an answer live with what
the options leave them.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

KEPT = Path(os.environ["GPIPE_EDU_STAND_IN"])

INSIDE = r"""
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=0755 none /mnt
number=0
for path in $KEEP; do
    mkdir /mnt/$number
    mount --bind $path /mnt/$number
    number=$((number + 1))
done
for path in $HIDE; do mount -t tmpfs -o mode=0755 none $path; done
number=0
for path in $KEEP; do
    mkdir -p $path
    mount --bind /mnt/$number $path
    mount -o remount,ro,bind $path
    number=$((number + 1))
done
umount -R /mnt
for path in /dev/shm /var/tmp /run; do mount -t tmpfs -o mode=0755 none $path; done
mount -o remount,ro,bind /
ip link set lo up
cd /tmp
exec setpriv --bounding-set=-all,$RIGHTS --inh-caps=-all --no-new-privs "$@"
"""


def main():
    arguments = sys.argv[1:]
    with (KEPT / "commands").open("a") as file:
        file.write(" ".join(arguments).replace("\n", " ") + "\n")
    if arguments[:2] == ["image", "inspect"]:
        sys.exit(not (KEPT / arguments[2]).exists())
    if arguments[0] == "build":
        shutil.copytree(arguments[-1], KEPT / "context")
        (KEPT / "context").chmod(0o755)
        (KEPT / arguments[arguments.index("--tag") + 1]).touch()
    if "--entrypoint" in arguments:  # asked is what limits it has
        print(os.environ.get("GPIPE_EDU_STAND_IN_LIMITS", f"{8 * 2**30}\n512"))
    elif arguments[0] == "run":
        run(arguments[1:])


def run(arguments):
    python = f"{os.path.realpath(sys.prefix)}/bin/{Path(sys.executable).name}"
    program = [python, "-P", "-u", "-c", "from gpipe_edu.judge.worker import main; main()"]
    keep = {os.path.realpath(path) for path in (sys.prefix, sys.base_prefix)} | {str(KEPT / "context")}
    rights = [one.partition("=")[2].lower() for one in arguments if one.startswith("--cap-add=")]
    environment = {
        "PATH": os.defpath + ":/usr/sbin:/sbin",
        "PYTHONPATH": str(KEPT / "context"),
        "OMP_NUM_THREADS": "1",
        "KEEP": " ".join(sorted(keep)),
        "HIDE": " ".join(sorted({"/tmp", *("/" + Path(path).parts[1] for path in keep)} - {"/usr"})),
        "RIGHTS": ",".join(f"+{right}" for right in rights),
    }
    spaces = ["--mount", "--net", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc"]
    command = ["unshare", *spaces, "sh", "-c", INSIDE, "sh", *program]
    sys.exit(subprocess.run(command, env=environment).returncode)


if __name__ == "__main__":
    main()
