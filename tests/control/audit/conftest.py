from tests.control.approvals.conftest import office, sqlite  # noqa: F401  # fixtures
