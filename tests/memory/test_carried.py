"""What endpoints had carried before each trial is recorded, and a trend over it is told."""

from __future__ import annotations

from dataclasses import dataclass

from tests.memory.cloud import NEAR, ROUTED, World
from tests.memory.lab import Lab
from tests.memory.model import Path

SCENARIO = "name: carried\nrepeat: 8\nseed: 1\n"


@dataclass(frozen=True)
class Tiring(Path):
    """A path that gets slower from trial to trial."""

    slower: float = 0.05

    def rate_in(self, trial: int) -> float:
        return self.rate_bps * (1 - self.slower * trial)


def test_every_trial_records_the_bytes_its_endpoints_had_sent_before(
    lab: Lab, world: World
) -> None:
    lab.run(SCENARIO)
    carried = [{one.endpoint: one.sent_bytes for one in trial.carried} for trial in lab.trials]
    (sender,) = lab.trials[0].senders
    assert carried[0][sender] == 0
    sent = [of[sender] for of in carried]
    assert sent == sorted(set(sent))


def test_a_rate_that_falls_with_the_bytes_sent_is_reported(lab: Lab, world: World) -> None:
    world.usual = (NEAR, Tiring(), ROUTED)
    (told,) = [text for text in lab.run(SCENARIO)["run"]["warnings"] if "token bucket" in text]
    assert "aggregate BTC falls by 4" in told


def test_a_rate_that_rises_is_no_bucket_that_empties(lab: Lab, world: World) -> None:
    world.usual = (NEAR, Tiring(slower=-0.05), ROUTED)
    (told,) = [text for text in lab.run(SCENARIO)["run"]["warnings"] if "sent and received" in text]
    assert "aggregate BTC rises by 2" in told
    assert told.endswith("): something else changes with time")


def test_noise_is_not_reported_as_a_token_bucket(lab: Lab, world: World) -> None:
    world.usual = (NEAR, Path(noise=0.05), ROUTED)
    assert not [text for text in lab.run(SCENARIO)["run"]["warnings"] if "bucket" in text]
