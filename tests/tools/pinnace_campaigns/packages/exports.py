"""Writes down what pi's packages export, for the comparison with what pinnace has in their place.

    python -P -m pinnace_campaigns.packages.exports FOLDER

FOLDER is that of the comparison of packages, in which the original is installed with its dependencies. Values alone:
types leave no trace in JavaScript. Programs, and modules that can't be imported by themselves, are left out.
"""

import json
import subprocess
from pathlib import Path
from typing import Final

import click

_ROOT: Final = Path(__file__).parents[4]
_NODE: Final = _ROOT / ".tools" / "node22" / "bin" / "node"
_INSTALLED: Final = Path("@earendil-works+pi-coding-agent", "node_modules", "@earendil-works")
FILE: Final = _ROOT / "tests" / "data" / "exports-of-pi-1.5.2.json"
PACKAGES: Final = ("pi-coding-agent", "pi-ai", "pi-agent-core", "pi-tui")
_SCRIPT: Final = """
import fs from "node:fs";
import path from "node:path";
const [folder, ...names] = process.argv.slice(1);
const found = {};
for (const name of names) {
  const { exports } = JSON.parse(fs.readFileSync(path.join(folder, name, "package.json")));
  for (const [subpath, target] of Object.entries(exports ?? { ".": "./dist/index.js" })) {
    const file = target?.import ?? target?.default ?? target;
    if (typeof file !== "string" || !file.endsWith(".js") || file.includes("*") || subpath.endsWith("-entry")) continue;
    const values = await import(path.join(folder, name, file)).then(Object.keys, () => []);
    if (values.length > 0) found[path.posix.join(name, subpath)] = values.filter((each) => each !== "default").sort();
  }
}
console.log(JSON.stringify(found));
process.exit(0);
"""


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, exists=True, path_type=Path))
def main(folder: Path) -> None:
    """Write the names that pi's packages export, as they are installed below FOLDER."""
    place = folder.resolve() / _INSTALLED
    words = [str(_NODE), "--input-type=module", "--eval", _SCRIPT, "--", str(place), *PACKAGES]
    done = subprocess.run(words, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    found = {name: " ".join(names) for name, names in json.loads(done.stdout).items()}
    FILE.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
