"""The exceptions of the package. Their words are the library's."""

from __future__ import annotations


class Error(Exception):
    """Anything that protoseg refuses or cannot do."""

    @property
    def hint(self) -> str | None:
        """How to fix it, if the message says so."""
        _, found, hint = str(self).partition("hint: ")
        return hint if found else None


class InputError(Error, ValueError):
    """An argument that cannot be used."""


class DataError(Error):
    """A file or a data set that cannot be read, or does not fit."""


class MissingFileError(DataError, FileNotFoundError):
    """A file that does not exist."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class ModelError(Error):
    """A model that cannot be read, written or used this way."""


class PackError(Error):
    """A class pack that cannot be read, changed or used with this model."""


class RegisterError(Error):
    """Classes that cannot be registered."""


class EvaluateError(Error):
    """A model that cannot be evaluated on this data set."""


class TrainError(Error):
    """A run of training that cannot begin, or ended early."""


class InternalError(Error):
    """A bug in protoseg."""
