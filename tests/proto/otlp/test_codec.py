"""Which decoder is in force."""

import subprocess
import sys

from tests.proto.otlp.generate import NOW_NS
from tests.proto.otlp.sent import request, span

WITHOUT_KERNEL = """
import sys
sys.modules["proto.otlp.kernel"] = None  # what an import finds that was never built
from proto.otlp import codec
from proto.otlp.policy import Policy
decoded = codec.decode("traces", sys.stdin.buffer.read(), 1, Policy(), int(sys.argv[1]))
print(codec.KERNEL, decoded.accepted, [block.table for block in codec.build_blocks([decoded], 1)])
"""


def test_the_reference_where_it_was_not() -> None:
    command = [sys.executable, "-c", WITHOUT_KERNEL, str(NOW_NS)]
    done = subprocess.run(command, input=request(span()), capture_output=True, check=True)
    assert done.stdout.decode().strip() == "False 1 ['spans', 'trace_index']"
