"""The pace of a draw, for whoever waits: samples, tokens a second, problems settled and reached, time left."""

import time
from dataclasses import dataclass, field

from offleash.drawing.schedule import Schedule, Stage
from offleash.progress import Progress
from offleash.render.numbers import duration

OFTEN = 0.5  # seconds between two words


@dataclass
class Pace:
    """Tells how a draw goes."""

    progress: Progress
    schedule: Schedule
    before: int  # samples that were there
    started: float = field(default_factory=time.monotonic)
    _last: float = 0.0

    def tell(self, samples: int, tokens: int) -> None:
        """Say how far it is, when it is time to: samples and tokens of this draw."""
        now = time.monotonic()
        if now - self._last < OFTEN:
            return
        self._last = now
        self.progress(self.words(samples, tokens, now - self.started))

    def words(self, samples: int, tokens: int, seconds: float) -> str:
        schedule = self.schedule
        told = [f"{self.before + samples:,} of at most {max(schedule.most, self.before + samples):,} samples"]
        if seconds > 0 and tokens:
            told.append(f"{tokens / seconds:,.0f} tokens/s")
        told.append(f"{schedule.count(Stage.SETTLED)} of {len(schedule.records)} problems settled")
        if schedule.until:
            told.append(f"{schedule.reached} reached")
        if samples and seconds > 0:
            told.append(f"about {duration(schedule.expected() * seconds / samples)} left")
        return ", ".join(told)
