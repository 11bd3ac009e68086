"""Builds of a small shop with esbuild, and what V8 throws in them."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.programs import esbuild, program

ROOT: Final = Path(__file__).parents[1]
CART: Final = """\
export class Cart {
  lines: { sku: string; price: number }[] = [];

  addLine(sku: string, price: number): void {
    if (price < 0) {
      throw new RangeError(`price of ${sku} is negative`);
    }
    this.lines.push({ sku, price });
  }
}

export function fillCart(skus: string[]): Cart {
  const cart = new Cart();
  skus.forEach((sku, index) => {
    cart.addLine(sku, index - 1);
  });
  return cart;
}

export const checkout = (skus: string[]): number => Object.keys(fillCart(skus)).length;
"""
MAIN: Final = """\
import { checkout } from './cart.js';

function startShop(): void {
  checkout(['apple 🍏', 'pear']);
}
try {
  startShop();
} catch (error) {
  console.log((error as Error).stack);
}
"""
# The frames of the sources, as `thrown` has them after the minified ones are resolved.
RESOLVED: Final = """\
RangeError: price of apple 🍏 is negative
    at Cart.addLine (src/cart.ts:6:13)
    at src/cart.ts:15:10
    at Array.forEach (<anonymous>)
    at fillCart (src/cart.ts:14:8)
    at checkout (src/cart.ts:20:65)
    at startShop (src/main.ts:4:3)
    at src/main.ts:7:3"""


@dataclass(frozen=True)
class Shop:
    """A build. `folder` is what is uploaded; the script is `assets/main-<hash>.mjs` in it."""

    folder: Path
    script: Path

    @property
    def name(self) -> str:
        return self.script.relative_to(self.folder).as_posix()

    def thrown(self, *options: str) -> str:
        """The stack trace of the error, down to the frames of Node.js itself."""
        ran = subprocess.run([program("node"), *options, self.script], capture_output=True, text=True, check=True)
        return ran.stdout.split("\n    at ModuleJob.run", maxsplit=1)[0].rstrip("\n")


def build_shop(folder: Path, more: str = "", *options: str) -> Shop:
    """A minified build; `more` is a further source file, so that names and hashes are others."""
    source = folder / "src"
    source.mkdir(parents=True)
    (source / "cart.ts").write_text(CART, encoding="utf-8")
    (source / "more.ts").write_text(more, encoding="utf-8")
    (source / "main.ts").write_text("import './more.js';\n" + MAIN if more else MAIN, encoding="utf-8")
    out = folder / "dist"
    command = [
        program("node"),
        str(esbuild()),
        "src/main.ts",
        "--bundle",
        "--minify",
        "--format=esm",
        f"--outdir={out}",
    ]
    names = ["--entry-names=assets/[name]-[hash]", "--out-extension:.js=.mjs", "--log-level=warning"]
    subprocess.run([*command, *names, *(options or ("--sourcemap=external",))], cwd=folder, check=True)
    (script,) = out.rglob("*.mjs")
    return Shop(out, script)
