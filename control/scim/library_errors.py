"""What the library raises, as errors of SCIM."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pydantic
from scim2_models import Error, SCIMException

from control.scim.errors import ScimError
from proto.errors import ErrorCode

MAX_DETAIL_LENGTH: Final = 500  # the library quotes values, which may be long
_CODES: Final = {
    403: ErrorCode.FORBIDDEN,
    404: ErrorCode.NOT_FOUND,
    409: ErrorCode.CONFLICT,
    412: ErrorCode.PRECONDITION_FAILED,
    501: ErrorCode.NOT_IMPLEMENTED,
}


@contextmanager
def translated() -> Iterator[None]:
    """Raises ScimError for what the library raises."""
    try:
        yield
    except SCIMException as error:
        raise _scim_error(error.to_error()) from error
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise _scim_error(Error.from_validation_error(first)) from error
    except RecursionError as error:
        raise ScimError("The request is nested too deeply.", "invalidSyntax") from error


def _scim_error(error: Error) -> ScimError:
    detail = " ".join((error.detail or "The request is not valid.").split())[:MAX_DETAIL_LENGTH]
    return ScimError(detail, error.scim_type or None, _CODES.get(error.status or 400, ErrorCode.BAD_REQUEST))
