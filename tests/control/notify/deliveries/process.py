"""A process that delivers, for tests that kill it: `process.py DATABASE_URL KEY_RING`. It says `ready` and goes on."""

import asyncio
import ipaddress
import sys
from datetime import timedelta
from pathlib import Path

from chassis.db.database import Database
from control.notify.deliveries import rules
from control.notify.deliveries.platforms.transports import Transports
from control.notify.deliveries.sender import DeliveryMetrics, Sender
from control.notify.deliveries.worker import Worker
from control.outbound.egress import Egress
from control.outbound.egress_policy import EgressPolicy
from control.secrets.secret_box import KeyFile, SecretBox

LEASE = timedelta(seconds=1)
PAUSE_S = 0.05  # after an attempt that was interrupted


async def main(url: str, ring: Path) -> None:
    vars(rules)["PAUSES_S"] = (PAUSE_S,) * len(rules.RETRY_DELAYS_S)
    database = Database(url)
    await database.start()
    egress = Egress(EgressPolicy((ipaddress.ip_network("127.0.0.0/8"),), allow_http=True))
    ways = Transports(egress, egress, None, "", "")
    sender = Sender(database, SecretBox(KeyFile(ring)), ways, DeliveryMetrics(None), slots=20, lease=LEASE)
    running, working = egress.running(), Worker(sender, poll_s=0.02).running()
    await anext(running)
    await anext(working)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
