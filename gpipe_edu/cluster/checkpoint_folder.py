"""The folders of a training on disk, one per saved step, and which of them are whole.

A step is written to a folder with another name, which gets its own name when all is in it. That tells a save that was
cut short from a whole one, but does not show what is lost later: by a crash before the last bytes were on the disk, or
a copy that was interrupted. So a manifest has the size and a digest of every file, and the newest step that agrees
with its manifest is taken.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist

from .ranks import gather

_MANIFEST: Final = "manifest.json"

_KEPT: Final = 2
"""The newest, and the one before it, in case the newest is damaged."""

_NAME: Final = re.compile(r"step-(\d{8})")


def step_folder(folder: Path, step: int) -> Path:
    """Where a step's files are in the end."""
    return folder / f"step-{step:08d}"


def partial_folder(final: Path) -> Path:
    """Where they are written."""
    return final.with_suffix(".partial")


def step_of(path: Path) -> int:
    """How many steps had been made when `path` was saved."""
    return int(path.name.partition("-")[2])


def saved_steps(folder: Path | str) -> list[Path]:
    """The folders of saved steps in `folder`, the oldest first."""
    found = Path(folder).glob("step-*") if Path(folder).is_dir() else ()
    return sorted(path for path in found if _NAME.fullmatch(path.name))


def newest_whole(folder: Path) -> Path | None:
    """The newest step that is whole, with a warning if there is a newer one; None if nothing was saved.

    All ranks call this, and each looks at its share of the files. Raises ValueError, on every rank, if none is whole.
    """
    rank, size = dist.get_rank(), dist.get_world_size()
    steps: list[Path] = gather(saved_steps(folder))[0]
    damages: list[str] = []
    for path in reversed(steps):
        found = [damage for damage in gather(_damage(path, slice(rank, None, size))) if damage]
        if not found:
            if damages and rank == 0:
                warnings.warn(
                    f"{'; '.join(damages)}. Going on from {path.name}, the newest that is whole", stacklevel=3
                )
            return path
        damages.append(f"{path} is damaged: {found[0]}")
    if damages:
        raise ValueError(f"{'; '.join(damages)}. None is whole; remove the folder to begin anew")
    return None


def write_object(path: Path, thing: object) -> Path:
    """Pickle `thing`; returns `path`. Raises OSError, where `torch.save` has errors of its own for a full disk."""
    pickled = io.BytesIO()
    torch.save(thing, pickled)
    path.write_bytes(pickled.getvalue())
    return path


def read_object(path: Path) -> Any:
    """What `write_object` has written, with tensors on the CPU."""
    return torch.load(path, "cpu", weights_only=False)


def digests(files: Iterable[Path]) -> dict[str, Any]:
    """The size and the digest of each of these files."""
    return {path.name: {"bytes": path.stat().st_size, "blake2b": _digest(path)} for path in files}


def finish(partial: Path, final: Path, written: Iterable[Mapping[str, Any]]) -> None:
    """Give its name to a step of which each rank has `written` a part, and remove what no resume needs now.

    written: for each rank, what `digests` says of its files. Raises OSError for one that is not here: then each machine
    has a folder of its own.
    """
    files = {name: entry for each in written for name, entry in each.items()}
    for name in files:
        if not (partial / name).exists():
            raise OSError(f"{name}, which another rank wrote, is not there for rank 0; all ranks need the same folder")
    (partial / _MANIFEST).write_text(json.dumps(files, indent=1), encoding="utf-8")
    if final.exists():  # a run resumed from an older step comes here again
        shutil.rmtree(final)
    partial.replace(final)
    older = [path for path in saved_steps(final.parent) if path < final]
    whole = [path for path in older if not _damage(path, slice(0, None), read=False)]
    for path in [*(path for path in older if path not in whole[1 - _KEPT :]), *final.parent.glob("step-*.partial")]:
        shutil.rmtree(path)


def do_together(work: Callable[[], Any], what: str) -> list[Any]:
    """What `work` returns on each rank. Raises OSError on every rank, beginning with `what`, if it does on one."""
    result, wrong = None, ""
    try:
        result = work()
    except OSError as error:
        wrong = error.strerror or str(error)
    found = gather((result, wrong))
    for rank, (_, theirs) in enumerate(found):
        if theirs:
            raise OSError(f"{what}: {theirs} (rank {rank})")
    return [result for result, _ in found]


def _damage(path: Path, share: slice, read: bool = True) -> str:
    """What is wrong with a share of a step's files, "" if nothing. read: compare digests, too."""
    try:
        known = json.loads((path / _MANIFEST).read_text(encoding="utf-8"))
        files = sorted(known.items())[share]
        for name, saved in files:
            found = (path / name).stat().st_size
            if found != saved["bytes"]:
                return f"{name} has {found} bytes, and was saved with {saved['bytes']}"
            if read and _digest(path / name) != saved["blake2b"]:
                return f"{name} has other bytes than were saved"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except OSError as error:
        return f"{Path(error.filename or path).name} can't be read ({error.strerror})"
    except (ValueError, TypeError, LookupError, AttributeError):
        return f"{_MANIFEST} can't be read"
    return ""


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
