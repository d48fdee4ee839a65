"""A directory on any filesystem that Spark's own Hadoop supports: local, hdfs, s3a, abfs, gs.

The log of the archive uses it. Everything goes through the driver's JVM, so the credentials, jars
and name services of the user's Spark apply. Only what must be durable on a local disk is done in
Python (`local_disk`). Paths here are relative. Invariant: `create_once` is the only operation that
concurrent writers rely on. A reader sees the complete file or no file. Of all writers of the same
path at most one succeeds, on local disks and on HDFS. With object stores (s3a, gs, abfs) Hadoop
first checks that the name is free and then renames or copies: there two writers at the same moment
may both succeed, so only one may work at a time.
"""

import logging
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from odradek.spark.archive import local_disk

_log = logging.getLogger("odradek.spark")

_LOCAL: Final = "file"
_EXISTS_EXCEPTIONS: Final = ("FileAlreadyExistsException",)
_NOT_FOUND_EXCEPTIONS: Final = ("FileNotFoundException", "NoSuchFileException")


class FileAlreadyExists(Exception):
    """Another writer has created this path already."""


class FilesystemFailed(Exception):
    """A filesystem operation failed; the message is the first line of its error."""


class Entry(NamedTuple):
    """A file or a subdirectory of a directory."""

    name: str
    size_bytes: int
    is_directory: bool


class Directory:
    """A directory and everything below it."""

    def __init__(self, session: SparkSession, root: str) -> None:
        context = session.sparkContext
        self._jvm: Any = context._jvm
        self._gateway: Any = context._gateway
        self._conf = context._jsc.hadoopConfiguration()
        try:
            path = self._jvm.org.apache.hadoop.fs.Path(root)
            self._fs = path.getFileSystem(self._conf)
            self._root = self._fs.makeQualified(path)
        except Py4JJavaError as error:
            raise filesystem_error(f"{root} cannot be used", error) from error
        self._uri = self._root.toUri()

    @property
    def root(self) -> str:
        return str(self._root.toString())

    def full_path(self, path: str) -> str:
        return str(self._path(path).toString())

    def local_path(self, path: str) -> str | None:
        """Returns the path if it is on a disk of this machine, so that Python can open it; else
        None."""
        if self._uri.getScheme() != _LOCAL:
            return None
        return str(self._path(path).toUri().getPath())

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, path) if path else self._root

    def list(self, path: str) -> list[Entry]:
        """Lists a directory; returns nothing if it does not exist."""
        try:
            statuses = self._fs.listStatus(self._path(path))
        except Py4JJavaError as error:
            if _is_one_of(error, _NOT_FOUND_EXCEPTIONS):
                return []
            raise filesystem_error(f"{self.full_path(path)} cannot be listed", error) from error
        return [
            Entry(str(status.getPath().getName()), int(status.getLen()), bool(status.isDirectory()))
            for status in statuses
        ]

    def exists(self, path: str) -> bool:
        try:
            return bool(self._fs.exists(self._path(path)))
        except Py4JJavaError as error:
            raise filesystem_error(
                f"cannot check whether {self.full_path(path)} exists", error
            ) from error

    def read(self, path: str) -> bytes:
        try:
            stream = self._fs.open(self._path(path))
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()
        except Py4JJavaError as error:
            raise filesystem_error(f"{self.full_path(path)} cannot be read", error) from error

    def create_once(self, path: str, data: bytes, *, scratch: str) -> None:
        """Creates a durable file; raises `FileAlreadyExists` if it exists. `scratch` is an unused
        path for a temporary file. After `FilesystemFailed` the file may exist."""
        local, local_scratch = self.local_path(path), self.local_path(scratch)
        try:
            if local is not None and local_scratch is not None:
                local_disk.create_once(local, data, local_scratch)
            else:
                self._create_by_rename(self._path(scratch), self._path(path), data)
        except FileExistsError as error:
            raise FileAlreadyExists(path) from error
        except OSError as error:
            raise FilesystemFailed(
                f"{self.full_path(path)} cannot be written: {error.strerror}"
            ) from error
        except Py4JJavaError as error:
            if _is_one_of(error, _EXISTS_EXCEPTIONS):
                raise FileAlreadyExists(path) from error
            raise filesystem_error(f"{self.full_path(path)} cannot be written", error) from error

    def _create_by_rename(self, scratch: Any, target: Any, data: bytes) -> None:
        self._fs.mkdirs(target.getParent())
        try:
            self._write(scratch, data)
            self._rename_once(scratch, target)
        finally:
            self._delete_scratch(scratch)

    def _write(self, path: Any, data: bytes) -> None:
        stream = self._fs.create(path, True)
        try:
            stream.write(bytearray(data))
            # HDFS syncs here. In an object store a file is durable when it is closed.
            stream.hsync()
        finally:
            stream.close()

    def _delete_scratch(self, path: Any) -> None:
        """A failure is only logged: the outcome of `create_once` is known already, and the run
        deletes the scratch file when it ends."""
        try:
            self._fs.delete(path, False)
        except Py4JJavaError as error:
            _log.warning(
                "%s", filesystem_error(f"The scratch file {path} cannot be deleted", error)
            )

    def sync_directories(self, paths: Iterable[str]) -> None:
        """Makes new, renamed and deleted names in these directories durable, and the directories
        themselves. Only local disks need that: HDFS and object stores answer when names are
        durable."""
        root = self.local_path("")
        if root is None:
            return
        try:
            local_disk.sync_directories(root, (f"{root}/{path}" for path in paths))
        except OSError as error:
            raise FilesystemFailed(f"{self.root} cannot be synced: {error}") from error

    def _rename_once(self, source: Any, target: Any) -> None:
        """Renames without overwriting, as Spark does for its own checkpoints."""
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._uri, self._conf)
        rename_options = getattr(self._jvm.org.apache.hadoop.fs, "Options$Rename")
        without_overwrite = self._gateway.new_array(rename_options, 1)
        without_overwrite[0] = rename_options.NONE
        context.rename(source, target, without_overwrite)

    def rename(self, source: str, target: str) -> None:
        try:
            self._fs.mkdirs(self._path(target).getParent())
            done = self._fs.rename(self._path(source), self._path(target))
        except Py4JJavaError as error:
            raise filesystem_error(f"{self.full_path(source)} cannot be renamed", error) from error
        if not done:
            raise FilesystemFailed(f"{self.full_path(source)} cannot be renamed to {target}")

    def delete(self, path: str) -> None:
        """Deletes a file or a directory tree; does nothing if it does not exist."""
        try:
            self._fs.delete(self._path(path), True)
        except Py4JJavaError as error:
            raise filesystem_error(f"{self.full_path(path)} cannot be deleted", error) from error


def _is_one_of(error: Py4JJavaError, names: tuple[str, ...]) -> bool:
    return str(error.java_exception.getClass().getSimpleName()) in names


def filesystem_error(attempt: str, error: Py4JJavaError) -> FilesystemFailed:
    message = str(error.java_exception.getMessage() or error.java_exception.getClass().getName())
    return FilesystemFailed(f"{attempt}: {message.splitlines()[0]}")
