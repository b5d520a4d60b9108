"""Where tests find the repository, the package's shipped models and the shared data beside the repository.

Every test takes its paths from here, so that a test file may move without its data silently turning into a skip.
OFFLEASH_SHARED_DATA and OFFLEASH_SHARED_SPEC name other places for the shared folders.
"""

import os
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "offleash"
EXAMPLES = ROOT / "examples"
MODELS = PACKAGE / "lab" / "models"
SHARED_DATA = Path(os.environ.get("OFFLEASH_SHARED_DATA", ROOT.parent / "shared" / "data"))
SHARED_SPEC = Path(os.environ.get("OFFLEASH_SHARED_SPEC", ROOT.parent / "shared" / "spec"))
