"""The wheel, alone in a clean environment: it installs without torch, compares and reports. By `make wheel-check`."""

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        pip(sys.executable, "wheel", "--no-deps", "-w", str(folder), str(ROOT))
        (wheel,) = folder.glob("offleash-*.whl")
        venv.create(folder / "clean", with_pip=True)
        python = str(folder / "clean" / "bin" / "python")
        pip(python, "install", str(wheel))
        installed = subprocess.run([python, "-m", "pip", "list"], capture_output=True, text=True, check=True).stdout
        assert "torch" not in installed.lower(), installed
        program, example = str(folder / "clean" / "bin" / "offleash"), ROOT / "examples" / "counts"
        command = [program, "compare", str(example / "base.csv"), str(example / "rl.csv"), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=scratch)
        support = json.loads(done.stdout)["support"]
        assert (support["P"], support["E"], support["S"], support["O"]) == (142, 5, 21, 32), support
        page = [program, "report", str(example / "base.csv"), str(example / "rl.csv"), "-o", "report.html"]
        subprocess.run(page, capture_output=True, check=True, cwd=scratch)
        assert 'data-tile="S" data-value="21"' in (folder / "report.html").read_text(encoding="utf-8")
        listed = subprocess.run([program, "lab", "model", "-o", str(folder / "base")], check=True, capture_output=True)
        assert b"Copied the base model of countdown" in listed.stdout, listed.stdout
        refused = subprocess.run([program, "demo"], capture_output=True, text=True, check=False, cwd=scratch)
        assert refused.returncode == 2, refused
        assert "pip install 'offleash[local]'" in refused.stderr, refused.stderr
        print(f"{wheel.name} installs without torch and compares: {support['P']=} {support['E']=} {support['S']=}")


def pip(python: str, *arguments: str) -> None:
    subprocess.run([python, "-m", "pip", "-q", "--disable-pip-version-check", *arguments], check=True)


if __name__ == "__main__":
    main()
