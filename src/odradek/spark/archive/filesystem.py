"""A directory on any filesystem that Spark's own Hadoop knows: local, hdfs, s3a, abfs, gs.

Place: used by the archive's log. Everything goes through the driver's JVM, so the credentials, jars
and name services of the user's Spark apply. Paths here are relative.
Invariant: `create_once` is the only call that decides anything. Of all writers of the same path at
most one succeeds, and a reader sees the complete file or no file.
"""

from typing import Any, Final, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

_LOCAL: Final = "file"
_EXISTS: Final = ("FileAlreadyExistsException",)
_NOT_THERE: Final = ("FileNotFoundException", "NoSuchFileException")


class AlreadyThere(Exception):
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
            raise failure(f"{root} cannot be used", error) from error
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
            found = self._fs.listStatus(self._path(path))
        except Py4JJavaError as error:
            if _is(error, _NOT_THERE):
                return []
            raise failure(f"{self.full_path(path)} cannot be listed", error) from error
        return [
            Entry(str(status.getPath().getName()), int(status.getLen()), bool(status.isDirectory()))
            for status in found
        ]

    def exists(self, path: str) -> bool:
        try:
            return bool(self._fs.exists(self._path(path)))
        except Py4JJavaError as error:
            raise failure(f"{self.full_path(path)} cannot be looked at", error) from error

    def read(self, path: str) -> bytes:
        try:
            stream = self._fs.open(self._path(path))
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()
        except Py4JJavaError as error:
            raise failure(f"{self.full_path(path)} cannot be read", error) from error

    def create_once(self, path: str, data: bytes, *, scratch: str) -> None:
        """Creates a file; raises `AlreadyThere` if it exists. `scratch` is an unused path for a
        temporary file."""
        source, target = self._path(scratch), self._path(path)
        try:
            self._fs.mkdirs(target.getParent())
            self._write(source, data)
            try:
                if self._uri.getScheme() == _LOCAL:
                    self._link(source, target)
                else:
                    self._rename_once(source, target)
            finally:
                self._fs.delete(source, False)
        except Py4JJavaError as error:
            if _is(error, _EXISTS):
                raise AlreadyThere(path) from error
            raise failure(f"{self.full_path(path)} cannot be written", error) from error

    def _write(self, path: Any, data: bytes) -> None:
        stream = self._fs.create(path, True)
        try:
            stream.write(bytearray(data))
            # Synced to disk before the rename: a log entry must not be empty after a crash.
            stream.hsync()
        finally:
            stream.close()

    def _link(self, source: Any, target: Any) -> None:
        """Creates a hard link, which fails if the name exists: atomic on local disks, where rename
        overwrites."""
        no_strings = self._gateway.new_array(self._jvm.java.lang.String, 0)
        get = self._jvm.java.nio.file.Paths.get
        files = self._jvm.java.nio.file.Files
        files.createLink(
            get(target.toUri().getPath(), no_strings), get(source.toUri().getPath(), no_strings)
        )

    def _rename_once(self, source: Any, target: Any) -> None:
        """Renames without overwriting, as Spark does for its own checkpoints."""
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._uri, self._conf)
        kinds = getattr(self._jvm.org.apache.hadoop.fs, "Options$Rename")
        without_overwrite = self._gateway.new_array(kinds, 1)
        without_overwrite[0] = kinds.NONE
        context.rename(source, target, without_overwrite)

    def rename(self, source: str, target: str) -> None:
        try:
            self._fs.mkdirs(self._path(target).getParent())
            done = self._fs.rename(self._path(source), self._path(target))
        except Py4JJavaError as error:
            raise failure(f"{self.full_path(source)} cannot be renamed", error) from error
        if not done:
            raise FilesystemFailed(f"{self.full_path(source)} cannot be renamed to {target}")

    def delete(self, path: str) -> None:
        """Deletes a file or a directory tree; does nothing if it does not exist."""
        try:
            self._fs.delete(self._path(path), True)
        except Py4JJavaError as error:
            raise failure(f"{self.full_path(path)} cannot be deleted", error) from error


def _is(error: Py4JJavaError, names: tuple[str, ...]) -> bool:
    return str(error.java_exception.getClass().getSimpleName()) in names


def failure(attempt: str, error: Py4JJavaError) -> FilesystemFailed:
    said = str(error.java_exception.getMessage() or error.java_exception.getClass().getName())
    return FilesystemFailed(f"{attempt}: {said.splitlines()[0]}")
