from tests.control.approvals.conftest import office  # noqa: F401  # a fixture
