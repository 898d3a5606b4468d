"""Where a folder's file system is mounted, and whether it is a network file system."""

from __future__ import annotations

import os
from pathlib import Path

MOUNTS = "/proc/self/mounts"  # Linux; on other systems nothing is known
# On these, changes by other machines cause no notification.
NETWORKS = ("nfs", "cifs", "smb", "afs", "ceph", "gluster", "9p", "fuse.sshfs", "fuse.s3fs", "fuse.rclone", "virtiofs")


def mount_of(folder: str) -> str:
    """The mount point."""
    place = os.path.realpath(folder)
    while not os.path.ismount(place):
        place = os.path.dirname(place)
    return place


def network_of(folder: str) -> str | None:
    """The kind of file system, if it is a network one; else None."""
    mount = mount_of(folder)
    try:
        lines = Path(MOUNTS).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    kinds = {
        words[1]: words[2] for line in lines if len(words := line.split(" ")) > 2
    }  # the last mount at a place wins
    kind = kinds.get(mount.replace(" ", "\\040"), "")
    return kind if kind.startswith(NETWORKS) else None
