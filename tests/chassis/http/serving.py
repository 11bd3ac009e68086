"""A process for the drain tests: it says on standard output how far it is.

It serves a path that answers on SIGUSR1 and one that reads its body.
"""

import asyncio
import signal
import sys

from aiohttp import web

from chassis.errors import StartupError
from chassis.http.serve import bind, serve
from chassis.http.web import Route, build_app, json_response, public
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry, configure_logging


def say(what: str) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


async def main(port: int, delay_s: float, timeout_s: float) -> None:
    configure_logging("info")
    released = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, released.set)

    async def slow(_request: web.Request) -> web.Response:
        say("entered")
        await released.wait()
        return json_response({"finished": True})

    async def upload(request: web.Request) -> web.Response:
        say("entered")
        return json_response({"bytes": len(await request.read())})

    settings = ChassisSettings(drain_delay_s=delay_s, drain_timeout_s=timeout_s)
    telemetry = Telemetry("drain")
    routes = [Route("POST", "/slow", slow, public()), Route("POST", "/upload", upload, public())]
    app = build_app(routes, service="drain", settings=settings, telemetry=telemetry)
    listener = bind("127.0.0.1", port)
    await serve(app, listener, settings, telemetry, lambda: say(str(listener.getsockname()[1])))
    say("stopped")


if __name__ == "__main__":
    try:
        asyncio.run(main(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])))
    except StartupError as error:
        sys.exit(str(error))
