"""`python -m tests.size`: how large each package is, beside the ceiling that `ceilings.json` sets it."""

from tests.size.measure import PAGE, PRODUCT, Size, ceilings, sizes


def main() -> None:
    """A line a package, then the product in all."""
    found, allowed = sizes(), ceilings()
    print(f"{'package':14} {'statements':>10} {'ceiling':>8} {'lines':>8}")
    for package, size in found.items():
        print(_line(package, size, allowed.get(package)))
    python = [found[package] for package in PRODUCT]
    print(_line("product", Size(*map(sum, zip(*python, strict=True))), None))
    print(f"{PAGE} has nodes of TypeScript's syntax tree instead of statements; the product's sum is without it.")


def _line(package: str, size: Size, ceiling: int | None) -> str:
    return f"{package:14} {size.units:10} {ceiling or '':>8} {size.lines:8}"


if __name__ == "__main__":
    main()
