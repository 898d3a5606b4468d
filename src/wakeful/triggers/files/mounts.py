"""Where a folder's file system is mounted, and whether it is another machine's."""

from __future__ import annotations

import os
from pathlib import Path

MOUNTS = "/proc/self/mounts"  # Linux; elsewhere nothing is known
# What other machines do there is not heard of.
NETWORKS = ("nfs", "cifs", "smb", "afs", "ceph", "gluster", "9p", "fuse.sshfs", "fuse.s3fs", "fuse.rclone", "virtiofs")


def mount_of(folder: str) -> str:
    """The mount point."""
    place = os.path.realpath(folder)
    while not os.path.ismount(place):
        place = os.path.dirname(place)
    return place


def network_of(folder: str) -> str | None:
    """The kind of file system, if it is one of a network."""
    mount = mount_of(folder)
    try:
        lines = Path(MOUNTS).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    kinds = {words[1]: words[2] for line in lines if len(words := line.split(" ")) > 2}  # of several, the uppermost
    kind = kinds.get(mount.replace(" ", "\\040"), "")
    return kind if kind.startswith(NETWORKS) else None
