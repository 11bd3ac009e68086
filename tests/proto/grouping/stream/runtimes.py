"""How each runtime prints the stack trace of a bug."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tests.proto.grouping.pairs import Raised
from tests.proto.grouping.stream.bugs import Bug
from tests.proto.grouping.stream.draws import Build, Draws

Frames = Sequence[tuple[str, str]]
Printer = Callable[[Bug, str, Build, Draws], Raised]


def _own(bug: Bug, draws: Draws) -> Frames:
    """The application's frames, innermost first, with a recursion as deep as it was."""
    if not bug.is_recursive:
        return bug.frames
    module, function = bug.frames[0]
    cycle = ((module, f"{function}Left"), (module, f"{function}Right"))
    depth = draws.depth()
    return (*(cycle[at % 2] for at in range(depth)), *bug.frames[1:])


def _python(bug: Bug, message: str, build: Build, draws: Draws) -> Raised:
    def traceback(frames: Frames, last: str) -> str:
        lines = (
            f'  File "{root}/{module}.py", line {build.line(function)}, in {function}\n    call()\n'
            for module, function in reversed(frames)
        )
        return f"Traceback (most recent call last):\n{served}{''.join(lines)}{library}{last}\n"

    root, site = f"/srv/shop-{build.version}/shop", "/usr/local/lib/python3.12/site-packages"
    served = "".join(
        f'  File "{site}/django/core/handlers/exception.py", line 55, in inner\n    response = get_response(request)\n'
        f'  File "{root}/middleware.py", line {build.line(name)}, in __call__\n'
        "    return self.get_response(request)\n"
        for name in draws.middlewares()
    )
    library = f'  File "{site}/sqlalchemy/engine/base.py", line 19{build.shift}, in execute\n    run()\n'
    kind = f"shop.errors.{bug.kind}"
    trace = traceback(_own(bug, draws), f"{kind}: {message}")
    if not bug.is_wrapped:
        return Raised(kind, message, trace)
    outer = traceback([("jobs", "run_job")] if bug.frames else [], "shop.jobs.JobFailed: job failed")
    between = "\nThe above exception was the direct cause of the following exception:\n\n"
    return Raised("shop.jobs.JobFailed", "job failed", trace + between + outer)


def _jvm(bug: Bug, message: str, draws: Draws, frame: Callable[[str, str], str], libraries: Sequence[str]) -> Raised:
    served = "".join(
        "\tat org.springframework.web.filter.OncePerRequestFilter.doFilter(OncePerRequestFilter.java:116)\n"
        f"\tat com.shop.web.{name}Filter.doFilterInternal({name}Filter.java:22)\n"
        for name in draws.middlewares()
    )
    kind = f"com.shop.{bug.kind}"
    own = "".join(f"\tat {frame(module.title(), function)}\n" for module, function in _own(bug, draws))
    below = "".join(f"\tat {line}\n" for line in libraries)
    trace = f"{kind}: {message}\n{below}{own}"
    thread = "\tat java.base/java.lang.Thread.run(Thread.java:840)\n"
    if not bug.is_wrapped:
        return Raised(kind, message, trace + (served if bug.frames else "") + thread)
    outer = "java.util.concurrent.CompletionException"
    completable = "java.base/java.util.concurrent.CompletableFuture"
    head = f"{outer}: {kind}: {message}\n\tat {completable}.encodeThrowable(CompletableFuture.java:315)\n"
    return Raised(outer, f"{kind}: {message}", f"{head}{thread}Caused by: {trace}\t... 3 more\n")


def _java(bug: Bug, message: str, build: Build, draws: Draws) -> Raised:
    proxy = f"com.shop.Repository$HibernateProxy${build.chunk[:6]}1.find(Unknown Source)"
    libraries = ["org.postgresql.jdbc.PgStatement.execute(PgStatement.java:410)"]
    return _jvm(
        bug,
        message,
        draws,
        lambda module, function: (
            f"com.shop.{module}.lambda${function}${build.lambdas}({module}.java:{build.line(function)})"
            if module == "Handlers"
            else f"com.shop.{module}.{function}({module}.java:{build.line(function)})"
        ),
        libraries if not bug.frames else [proxy, *libraries][build.lambdas % 2 :],
    )


def _kotlin(bug: Bug, message: str, build: Build, draws: Draws) -> Raised:
    def frame(module: str, function: str) -> str:
        where = f"{module}.kt:{build.line(function)}"
        if module == "Handlers":
            return f"com.shop.HandlersKt${function}${build.lambdas}.invokeSuspend({where})"
        return f"com.shop.{module}.{function}({where})"

    return _jvm(bug, message, draws, frame, ["kotlin.collections.MapsKt__MapsKt.getValue(Maps.kt:372)"])


def _scala(bug: Bug, message: str, build: Build, draws: Draws) -> Raised:
    def frame(module: str, function: str) -> str:
        name = f"$anonfun${function}${build.lambdas}" if module == "Handlers" else function
        return f"com.shop.{module}$.{name}({module}.scala:{build.line(function)})"

    return _jvm(bug, message, draws, frame, ["scala.collection.immutable.Map$EmptyMap$.apply(Map.scala:243)"])


def _node(bug: Bug, message: str, build: Build, draws: Draws) -> Raised:
    head = f"{bug.kind}: {message}"
    library = "    at Query.run (/app/node_modules/pg/lib/query.js:83:19)\n"
    own = "".join(
        f"    at {'async ' * (module == 'server')}{function} (/app/dist/{module}.js:{build.line(function)}:7)\n"
        for module, function in _own(bug, draws)
    )
    served = "".join(
        "    at Layer.handle [as handle_request] (/app/node_modules/express/lib/router/layer.js:95:5)\n"
        f"    at {name.lower()} (/app/dist/middleware.js:{build.line(name)}:3)\n"
        for name in draws.middlewares()
    )
    trace = head + "\n" + library + own
    if not bug.is_wrapped:
        return Raised(bug.kind, message, trace + (served if bug.frames else ""))
    indented = trace.strip().replace("\n", "\n  ")
    where = f"    at async runJob (/app/dist/jobs.js:{build.line('runJob')}:11)" if bug.frames else library.rstrip()
    return Raised("JobFailed", "job failed", f"JobFailed: job failed\n{where} {{\n  [cause]: {indented}\n}}")


def _chrome(bug: Bug, message: str, build: Build, draws: Draws) -> Raised:
    own = "".join(
        f"    at {function} (https://shop.example/assets/{module}-{build.chunk}.js:1:{build.line(function) * 7})\n"
        for module, function in _own(bug, draws)
    )
    return Raised(bug.kind, message, f"{bug.kind}: {message}\n    at Array.map (<anonymous>)\n{own}")


def _firefox(bug: Bug, message: str, build: Build, draws: Draws) -> Raised:
    own = "".join(
        f"{function}@https://shop.example/static/{module}.{build.hash}.js:{build.line(function)}:23\n"
        for module, function in _own(bug, draws)
    )
    return Raised(bug.kind, message, own)


def _go(bug: Bug, message: str, build: Build, draws: Draws) -> Raised:
    def frame(module: str, function: str, file: str) -> str:
        closure = f".func{build.lambdas}" if module == "handlers" else ""
        return (
            f"shop.example/shop/{module}.{function}{closure}(0xc{draws.address()[:9]}, {{0x1?, 0x2}})\n"
            f"\t{file}:{build.line(function)} +0x{draws.number(4096):x}\n"
        )

    trimmed = build.lambdas % 2 == 0
    source, root = ("", "shop.example/shop") if trimmed else ("/usr/local/go/src/", "/home/ci/shop")
    own = "".join(frame(module, function, f"{root}/{module}/{module}.go") for module, function in _own(bug, draws))
    trace = (
        f"goroutine {draws.number(900) + 1} [running]:\n"
        f"runtime/debug.Stack()\n\t{source}runtime/debug/stack.go:26 +0x5e\n"
        f"panic({{0x{draws.address()[:6]}?, 0x{draws.address()[:6]}?}})\n\t{source}runtime/panic.go:860 +0x13a\n"
        f"encoding/json.(*encodeState).marshal(0x{draws.address()}?)\n\t{source}encoding/json/encode.go:343 +0xb1\n"
        f"{own}"
        f"net/http.(*conn).serve(0xc{draws.address()[:9]})\n\t{source}net/http/server.go:2102 +0x625\n"
    )
    return Raised(f"*shop.{bug.kind}", message, trace)


def _rust(bug: Bug, message: str, build: Build, draws: Draws) -> Raised:
    rustc = f"/rustc/{build.hash * 5}/library"
    frames = [
        ("std::panicking::panic_with_hook", f"{rustc}/std/src/panicking.rs:{800 + build.lambdas}:13"),
        ("rust_begin_unwind", f"{rustc}/std/src/panicking.rs:{680 + build.lambdas}:5"),
        ("core::panicking::panic_fmt", f"{rustc}/core/src/panicking.rs:80:14"),
        ("core::result::unwrap_failed", f"{rustc}/core/src/result.rs:1867:5"),
        *(
            (f"shop::{module}::{function}", f"./src/{module}.rs:{build.line(function)}:9")
            for module, function in _own(bug, draws)
        ),
        ("std::sys::backtrace::__rust_begin_short_backtrace", f"{rustc}/std/src/sys/backtrace.rs:166:18"),
    ]
    lines = "".join(f"{at:4}: {name}\n             at {where}\n" for at, (name, where) in enumerate(frames))
    return Raised("panic", f"{bug.kind}: {message}", lines)


def _dotnet(bug: Bug, message: str, build: Build, draws: Draws) -> Raised:
    def frame(module: str, function: str) -> str:
        where = f"in /src/{module.title()}.cs:line {build.line(function)}"
        if module == "handlers":
            number = build.lambdas
            return f"   at Shop.Handlers.<>c__DisplayClass{number}_0.<<{function}>b__{number}>d.MoveNext() {where}\n"
        return f"   at Shop.{module.title()}.{function}(Int32 id) {where}\n"

    served = "".join(
        "   at Microsoft.AspNetCore.Http.RequestDelegateFactory.ExecuteTaskOfString(Task`1 task, HttpContext context)\n"
        f"   at Shop.Web.{name}Middleware.InvokeAsync(HttpContext context) in /src/Web/{name}Middleware.cs:line 9\n"
        for name in draws.middlewares()
    )
    kind = f"Shop.{bug.kind}"
    own = "".join(frame(module, function) for module, function in _own(bug, draws))
    library = "   at Npgsql.Internal.NpgsqlConnector.ReadMessageLong(Boolean async)\n"
    if not bug.is_wrapped:
        return Raised(kind, message, f"{kind}: {message}\n{library}{own}{served if bug.frames else ''}")
    outer = "System.AggregateException"
    text = f"One or more errors occurred. ({message})"
    trace = (
        f"{outer}: {text}\n ---> {kind}: {message}\n{library}{own}   --- End of inner exception stack trace ---\n"
        "   at System.Threading.Tasks.Task.ThrowIfExceptional(Boolean includeTaskCanceledExceptions)\n"
    )
    return Raised(outer, text, trace)


def _ruby(bug: Bug, message: str, build: Build, draws: Draws) -> Raised:
    gems = "/usr/local/bundle/gems"
    served = (
        f"{gems}/actionpack-7.1.{build.lambdas}/lib/action_dispatch/middleware/executor.rb:14:in `call'\n"
        f"\tfrom /rails/app/middleware/{name.lower()}.rb:{build.line(name)}:in `call'"
        for name in draws.middlewares()
        if bug.frames
    )
    frames = [
        f"{gems}/activerecord-7.1.{build.lambdas}/lib/active_record/core.rb:253:in `find'",
        *(
            f"/rails/app/{module}/{module}.rb:{build.line(function)}:in `{function}'"
            for module, function in _own(bug, draws)
        ),
        *served,
        f"{gems}/puma-6.4.{build.lambdas}/lib/puma/thread_pool.rb:155:in `block in spawn_thread'",
    ]
    first, *rest = frames
    trace = f"{first}: {message} ({bug.kind})\n" + "".join(f"\tfrom {line}\n" for line in rest)
    return Raised(bug.kind, message, trace)


def _php(bug: Bug, message: str, build: Build, draws: Draws) -> Raised:
    root = f"/var/www/releases/202611{build.shift % 28 + 1:02}080000"
    calls, called = [], "Doctrine\\DBAL\\Driver->execute"
    vendor = (f"{root}/vendor/doctrine/dbal/src/Connection.php(1{build.shift})", "Doctrine\\DBAL\\Connection->query")
    own = [
        (f"{root}/src/{module.title()}.php({build.line(function)})", f"App\\{module.title()}->{function}")
        for module, function in _own(bug, draws)
    ]
    for place, function in [vendor, *own]:  # a line has the function that was called there
        calls.append(f"{place}: {called}()")
        called = function
    calls.append(f"{root}/vendor/symfony/runtime/Runner.php(35): {called}()")
    lines = "".join(f"#{at} {call}\n" for at, call in enumerate(calls))
    kind = f"App\\{bug.kind}"
    head = f"{kind}: {message} in {root}/vendor/doctrine/dbal/src/Driver.php:31\nStack trace:\n"
    return Raised(kind, message, f"{head}{lines}#{len(calls)} {{main}}")


RUNTIMES: Final[Mapping[str, Printer]] = {
    "python": _python,
    "java": _java,
    "kotlin": _kotlin,
    "scala": _scala,
    "node": _node,
    "chrome": _chrome,
    "firefox": _firefox,
    "go": _go,
    "rust": _rust,
    "dotnet": _dotnet,
    "ruby": _ruby,
    "php": _php,
}
