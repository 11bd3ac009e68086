"""What the routes of single sign-on answer whatever fails, and to whom."""

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from chassis.errors import ApiError, PayloadTooLarge, ServiceUnavailable, Unimplemented, UnsupportedMediaType
from control.identity.sso.login.browser import only_specified_statuses


async def test_browsers_get_no_other_statuses_than_specified() -> None:
    """A client that is slow is no failure of ours."""
    errors: dict[ApiError, int] = {
        ServiceUnavailable("The body was not received in time.", close=True): 400,
        Unimplemented("The only supported Transfer-Encoding is chunked.", close=True): 400,
        PayloadTooLarge("The body is larger than 1 bytes."): 400,
        UnsupportedMediaType("The body must be a form or JSON.", close=True): 400,
        ServiceUnavailable("The database is unavailable."): 500,
    }
    for error, status in errors.items():

        @only_specified_statuses
        async def failing(_request: web.Request, error: ApiError = error) -> web.StreamResponse:
            raise error

        with pytest.raises(ApiError) as raised:
            await failing(make_mocked_request("POST", "/sso/saml/acme/acs"))
        assert (raised.value.status, raised.value.close) == (status, error.close)
