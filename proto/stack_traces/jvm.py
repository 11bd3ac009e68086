r"""Frames of Java, Kotlin, Scala, Groovy and Clojure: `\tat com.shop.Cart.add(Cart.java:42)`."""

import re
from typing import Final

from proto.stack_traces.frames import OTHER, PASSED_OVER, Line, frame_line, make_frame
from proto.stack_traces.libraries import JVM, JVM_STANDARD

FAMILY: Final = "jvm"
_SOURCE: Final = re.compile(
    r"([\w$ -]+\.[a-z]\w{0,9})?(?::-?\d+)?|Native Method|Unknown Source|<[\w ]+>|SourceFile(?::\d+)?"
)
# Classes that are generated while the program runs. Their frames appear between the frames of the application.
_GENERATED: Final = re.compile(
    r"\$\$(?:Lambda|Enhancer|FastClass|SpringCGLIB|KeyFactory|_)|\$HibernateProxy|\$ByteBuddy|\$MockitoMock|_javassist"
    r"|\$Proxy\d|Generated\w{1,40}Accessor|_(?:ClientProxy|Subclass|WeldSubclass)(?=$|[.$])|_\$\$_"
)
_NUMBERS: Final = (
    (re.compile(r"(?:\$|(?<=lambda)-|(?<=lambda\$)|@)\d+(?=$|[$.])"), ""),
    (re.compile(r"(?<=_closure)\d+|(?<=fn__)\d+|(?<=eval)\d+|(?<=[A-Za-z]__)\d+"), ""),
)
_ANONYMOUS: Final = re.compile(r"\$\d+$|_closure\d|\$\$anonfun|\$lambda")  # classes
_KOTLIN_LAMBDA: Final = re.compile(r"\$lambda(?:\$|-)?\d*$")


def read(head: str, inside: str, indent: int) -> Line:
    """Reads `at <head>(<inside>)`: the class with its method, and the place in the source."""
    match = _SOURCE.fullmatch(inside)
    if not match or not inside:
        return OTHER
    qualified, _, function = head.rpartition(".")
    if "/" in qualified and "$$Lambda" not in qualified:  # begins with a class loader and a module
        qualified = qualified.rpartition("/")[2]
    if not qualified:
        if inside.endswith(".php") or ".php:" in inside:
            return frame_line(FAMILY, make_frame(match[1] or "", function, True), indent)
        return OTHER
    package, _, name = qualified.rpartition(".")
    file = match[1] or f"{name.partition('$')[0]}.java"
    path = f"{package.replace('.', '/')}/{file}" if package else file
    if ("$" in head or "_" in head) and (_GENERATED.search(qualified) or "$jacoco" in function):
        return PASSED_OVER
    if qualified.startswith(JVM):
        is_standard = qualified.startswith(JVM_STANDARD)
        return frame_line(FAMILY, make_frame(qualified, function, False, file=path, is_standard=is_standard), indent)
    is_named = not _ANONYMOUS.search(qualified)
    return frame_line(
        FAMILY, make_frame(_stable(qualified), _stable(function), True, file=path, is_named=is_named), indent
    )


def _stable(name: str) -> str:
    """The name without the numbers that compilers give to lambdas, closures and anonymous classes in source order."""
    if "$" not in name and "_" not in name and "-" not in name:
        return name
    name = _KOTLIN_LAMBDA.sub("$lambda", name).removesuffix("$adapted")
    for pattern, replacement in _NUMBERS:
        name = pattern.sub(replacement, name)
    return name.rstrip("$")
