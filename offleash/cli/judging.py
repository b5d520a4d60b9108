"""How samples are judged."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from offleash.verifying.verify import Verifying

Jobs = Annotated[int, typer.Option(metavar="N", help="Worker processes; 0 takes one a core.")]
TrustCode = Annotated[
    bool, typer.Option("--trust-code", help="Run model-written code where no sandbox can be built. Read the warning.")
]


@dataclass(frozen=True)
class Judged:
    """By which verifier, and with what."""

    verifier: Annotated[
        str | None, typer.Option(metavar="NAME", help="Judge all problems with it, not each with its own.")
    ] = None
    jobs: Jobs = 0
    trust_code: TrustCode = False
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Neither use nor keep verdicts of other runs.")] = False
    referee: Annotated[
        str | None, typer.Option("--referee", metavar="URL", help="OpenAI-compatible server that the referee asks.")
    ] = None
    referee_model: Annotated[str | None, typer.Option(metavar="NAME", help="The model that the referee asks.")] = None

    def judging(self, last_number: bool = False, opened: bool = False, problems: str | None = None) -> "Verifying":
        """How to verify."""
        from offleash.verifying.verifying import verifying

        asked = (self.referee, self.referee_model)
        return verifying(
            self.verifier, last_number, opened, self.jobs, self.trust_code, not self.no_cache, *asked, problems
        )
