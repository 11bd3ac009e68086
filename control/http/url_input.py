"""URLs that requests contain. Their types describe the form; the rest of what makes a URI is checked here."""

from msgspec import UnsetType

from chassis.http.validation import Issues
from control.outbound.egress_policy import parse_uri


def check_url(text: str | UnsetType | None, path: str, issues: Issues, *, allow_http: bool = True) -> None:
    """Record an issue for a text that is not a URI with a host, unless there is one at `path`."""
    if not isinstance(text, str) or issues.has_issue_under(path):
        return
    try:
        parse_uri(text, allow_http=allow_http)
    except ValueError as error:
        issues.add(path, str(error), "format")
